"""Apply ``key=value`` overrides from the command line to a recipe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from penstock.errors import RecipeError, suggestion
from penstock.recipe.document import Document, parse_value


def apply_overrides(document: Document, overrides: Sequence[str], settings: Collection[str]) -> None:
    """Change a recipe in place; a dotted key names a nested value: ``stages.2.filter_obj.min_words=80``.

    ``settings`` are the keys that can be set even if the recipe does not contain them.
    """
    for override in overrides:
        key, sign, value = override.partition("=")
        if not sign or not key:
            raise RecipeError(f"'{override}' is not an override. Write key=value, such as text_field=body.")
        parsed = parse_value(value, f"override '{key}'")
        if key in settings:
            document.data[key] = parsed
        else:
            _set(document, key, parsed)


def _set(document: Document, key: str, value: Any) -> None:  # noqa: ANN401 - any YAML value
    steps = key.split(".")
    place: Any = document.data
    for depth, step in enumerate(steps[:-1]):
        place = place[_key(document, place, step, steps[:depth], key)]
    last = steps[-1]
    if isinstance(place, dict) and "_target_" in place:
        place[last] = value  # a parameter left at its default; instantiation checks that it exists
        return
    place[_key(document, place, last, steps[:-1], key)] = value


def _key(document: Document, place: Any, step: str, above: list[str], key: str) -> str | int:  # noqa: ANN401
    """Return the step as an index or key of ``place``; raise RecipeError with the available keys if it has none."""
    inside = f"'{'.'.join(above)}'" if above else "the recipe"
    if isinstance(place, list):
        if step.isdigit() and int(step) < len(place):
            return int(step)
        problem = f"{inside} is a list; use a number from 0 to {len(place) - 1}."
    elif isinstance(place, dict):
        if step in place:
            return step
        problem = f"{inside} has no '{step}'; it has {', '.join(place)}.{suggestion(step, place)}"
    else:
        problem = f"{inside} is {place!r:.80}, which contains no other values."
    raise RecipeError(f"{document.source}: override '{key}': {problem}")
