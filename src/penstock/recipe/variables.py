"""Replace ``${name}`` in a recipe by the value of the variable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import RecipeError, suggestion
from penstock.recipe.document import MAX_DEPTH, MAX_ENTRIES, Document, Path

# The value of a variable that the user must set.
MANDATORY = "???"
# Limit for the text of a recipe after replacement, because variables of variables can grow exponentially.
MAX_CHARACTERS = 10_000_000
_REFERENCE = re.compile(r"\$\{([^{}]+)\}")


@dataclass(frozen=True)
class Given:
    """Hold a Python value that is used unchanged: text in it is not parsed and references are not replaced."""

    value: Any


def give_variables(document: Document, variables: Mapping[str, Any]) -> None:
    """Set variables of a recipe to Python values. Text is not parsed: '2024', 'null' and '${x}' stay text."""
    for name, value in variables.items():
        if name not in document.data:
            raise RecipeError(
                f"{document.source}: the command sets the variable '{name}', which this recipe does not have. It has "
                f"{', '.join(document.data)}.{suggestion(name, document.data)}"
            )
        document.data[name] = Given(value)


def resolve_variables(document: Document, settings: frozenset[str]) -> dict[str, Any]:
    """Return the recipe with every ``${name}`` replaced, without the variables themselves.

    ``settings`` are the keys with a fixed meaning. Any other top-level key is a variable. A variable that is used
    neither by ``${name}`` nor by an alias is reported as an unknown key, because it is probably misspelled.
    """
    resolution = _Resolution(document)
    resolved = {key: resolution.resolve(value, (key,), ()) for key, value in document.data.items() if key in settings}
    known = settings | resolution.used | document.repeated
    unused = [key for key in document.data if key not in known]
    if unused:
        key = next((k for k in unused if isinstance(document.data[k], list | dict)), unused[0])  # rarely a variable
        raise RecipeError(
            f"{document.where((key,))}: unknown key; a recipe has {', '.join(sorted(settings))}, and variables that "
            f"something refers to as ${{{key}}}.{suggestion(key, settings)}"
        )
    return resolved


def missing_variables(document: Document) -> list[str]:
    """Return the variables that the user must still set."""
    return [key for key, value in document.data.items() if value == MANDATORY]


class _Resolution:
    """Replace references, counting entries and characters against the limits."""

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
        self._count(value, path)  # text without references counts too: an alias can repeat it many times
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
            self._refuse(path, f"entries are nested more than {MAX_DEPTH} levels deep")
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
            "The likely cause is variables that refer to other variables."
        )
