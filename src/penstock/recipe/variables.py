"""``${name}`` in a recipe: one value, written once, used in many places."""

from __future__ import annotations

import re
from typing import Any

from penstock.errors import RecipeError, suggestion
from penstock.recipe.document import Document, Path

# The value of a key that the user has to give.
MANDATORY = "???"
_REFERENCE = re.compile(r"\$\{([^{}]+)\}")


def resolve_variables(document: Document, settings: frozenset[str]) -> dict[str, Any]:
    """Return the recipe with every ``${name}`` replaced, without the variables themselves.

    ``settings`` are the keys that mean something by themselves; any other top-level key is a variable, and one that
    nothing refers to is taken for a typing error.
    """
    used: set[str] = set()
    resolved = {
        key: _resolve(document, value, (key,), used, ()) for key, value in document.data.items() if key in settings
    }
    unused = [key for key in document.data if key not in settings and key not in used]
    if unused:
        key = next((k for k in unused if isinstance(document.data[k], list | dict)), unused[0])  # no likely variable
        raise RecipeError(
            f"{document.where((key,))}: unknown key; a recipe has {', '.join(sorted(settings))}, and variables that "
            f"something refers to as ${{{key}}}.{suggestion(key, settings)}"
        )
    return resolved


def missing_variables(document: Document) -> list[str]:
    """Return the keys that still have to be given."""
    return [key for key, value in document.data.items() if value == MANDATORY]


def _resolve(document: Document, value: Any, path: Path, used: set[str], within: tuple[str, ...]) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _resolve(document, part, (*path, key), used, within) for key, part in value.items()}
    if isinstance(value, list):
        return [_resolve(document, part, (*path, i), used, within) for i, part in enumerate(value)]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole:
        return _look_up(document, whole[1], path, used, within)
    return _REFERENCE.sub(lambda match: str(_look_up(document, match[1], path, used, within)), value)


def _look_up(document: Document, name: str, path: Path, used: set[str], within: tuple[str, ...]) -> Any:  # noqa: ANN401
    if name in within:
        raise RecipeError(f"{document.where(path)}: ${{{name}}} refers to itself.")
    place: Any = document.data
    for step in name.split("."):
        if not isinstance(place, dict) or step not in place:
            known = [key for key, value in document.data.items() if not isinstance(value, list | dict)]
            raise RecipeError(
                f"{document.where(path)}: ${{{name}}} is not defined in this recipe.{suggestion(name, known)}"
            )
        place = place[step]
    used.add(name.split(".")[0])
    return _resolve(document, place, path, used, (*within, name))
