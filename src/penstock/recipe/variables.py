"""``${name}`` in a recipe: one value, written once, used in many places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import RecipeError, suggestion
from penstock.recipe.document import MAX_DEPTH, MAX_ENTRIES, Document, Path

# The value of a key that the user has to give.
MANDATORY = "???"
# How much text a recipe may have with every reference replaced: variables of variables grow exponentially.
MAX_CHARACTERS = 10_000_000
_REFERENCE = re.compile(r"\$\{([^{}]+)\}")


@dataclass(frozen=True)
class Given:
    """A value that came as a Python object: used as it is, without looking for references or a meaning in it."""

    value: Any


def give_variables(document: Document, variables: Mapping[str, Any]) -> None:
    """Set variables of a recipe to Python values. Text stays text: '2024', 'null' and '${x}' have no meaning here."""
    for name, value in variables.items():
        if name not in document.data:
            raise RecipeError(
                f"{document.source}: this recipe has no variable '{name}', which the command gives. It has "
                f"{', '.join(document.data)}.{suggestion(name, document.data)}"
            )
        document.data[name] = Given(value)


def resolve_variables(document: Document, settings: frozenset[str]) -> dict[str, Any]:
    """Return the recipe with every ``${name}`` replaced, without the variables themselves.

    ``settings`` are the keys that mean something by themselves; any other top-level key is a variable, and one that
    nothing refers to, by ``${name}`` or an alias, is taken for a typing error.
    """
    resolution = _Resolution(document)
    resolved = {key: resolution.resolve(value, (key,), ()) for key, value in document.data.items() if key in settings}
    known = settings | resolution.used | document.repeated
    unused = [key for key in document.data if key not in known]
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


class _Resolution:
    """Replaces references, and counts what they bring in."""

    def __init__(self, document: Document) -> None:
        self.used: set[str] = set()
        self._document = document
        self._entries = 0
        self._characters = 0

    def resolve(self, value: Any, path: Path, within: tuple[str, ...]) -> Any:  # noqa: ANN401 - any YAML value
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            self._refuse(path, f"the recipe has more than {MAX_ENTRIES:,} entries")
        if isinstance(value, Given):
            return value.value
        if isinstance(value, dict):
            return {key: self.resolve(part, (*path, key), within) for key, part in value.items()}
        if isinstance(value, list):
            return [self.resolve(part, (*path, i), within) for i, part in enumerate(value)]
        if not isinstance(value, str):
            return value
        self._count(value, path)  # also what has no reference: an alias repeats a text without a copy
        whole = _REFERENCE.fullmatch(value)
        return self._look_up(whole[1], path, within) if whole else self._fill(value, path, within)

    def _fill(self, text: str, path: Path, within: tuple[str, ...]) -> str:
        pieces = []
        end = 0
        for match in _REFERENCE.finditer(text):
            inserted = str(self._look_up(match[1], path, within))
            self._count(inserted, path)
            pieces += [text[end : match.start()], inserted]
            end = match.end()
        return "".join([*pieces, text[end:]])

    def _look_up(self, name: str, path: Path, within: tuple[str, ...]) -> Any:  # noqa: ANN401
        document = self._document
        if name in within:
            raise RecipeError(f"{document.where(path)}: ${{{name}}} refers to itself.")
        if len(within) >= MAX_DEPTH or len(path) > MAX_DEPTH:
            self._refuse(path, f"entries are nested more than {MAX_DEPTH} deep")
        place: Any = document.data
        for step in name.split("."):
            if not isinstance(place, dict) or step not in place:
                known = [key for key, value in document.data.items() if not isinstance(value, list | dict)]
                raise RecipeError(
                    f"{document.where(path)}: ${{{name}}} is not defined in this recipe.{suggestion(name, known)}"
                )
            place = place[step]
        self.used.add(name.split(".")[0])
        return self.resolve(place, path, (*within, name))

    def _count(self, text: str, path: Path) -> None:
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            self._refuse(path, f"the recipe has more than {MAX_CHARACTERS:,} characters")

    def _refuse(self, path: Path, problem: str) -> None:
        raise RecipeError(
            f"{self._document.where(path)}: {problem} once every ${{variable}} is replaced. "
            "Variables that repeat variables are the likely cause."
        )
