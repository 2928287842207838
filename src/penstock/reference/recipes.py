"""Recipes that come with Penstock, described from their YAML files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from penstock.recipe.recipe import SETTINGS, shipped_recipes

_VARIABLE = re.compile(r"^(\w+): *([^#]*?) *(?:# *(.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class Variable:
    """A value of a recipe that the command line can set. ``default`` is None if it has to be set."""

    name: str
    default: str | None
    text: str


@dataclass(frozen=True)
class RecipeEntry:
    """A recipe: what it does, how it is run, its variables and its stages in order."""

    name: str
    summary: str
    description: str
    commands: tuple[str, ...]
    variables: tuple[Variable, ...]
    stages: tuple[str, ...]


def recipe_entries() -> dict[str, RecipeEntry]:
    """Return an entry for every recipe that comes with Penstock.

    >>> recipe_entries()["c4"].variables[0].name
    'input_path'
    """
    return {name: _entry(name, path.read_text(encoding="utf-8")) for name, path in shipped_recipes().items()}


def _entry(name: str, text: str) -> RecipeEntry:
    header = [line.removeprefix("#") for line in text.partition("\n\n")[0].split("\n") if line.startswith("#")]
    commands = [line.strip() for line in header if line.startswith("   ")]
    prose = " ".join(line.strip() for line in header if line.strip() and not line.startswith("   "))
    data = yaml.safe_load(text)
    written = {key: (value, comment) for key, value, comment in _VARIABLE.findall(text)}
    variables = [
        _variable(key, *written.get(key, (str(value), ""))) for key, value in data.items() if key not in SETTINGS
    ]
    summary = str(data.get("description") or prose)
    return RecipeEntry(name, summary, prose, tuple(commands), tuple(variables), tuple(_stages(data)))


def _variable(name: str, value: str, text: str) -> Variable:
    return Variable(name, None if value == "???" else value, text)


def _stages(data: dict[str, Any]) -> list[str]:
    found = []
    for stage in [data["workflow"]] if "workflow" in data else data["stages"]:
        inner = [value["_target_"] for value in stage.values() if isinstance(value, dict) and "_target_" in value]
        found.append(f"{stage['_target_']}({', '.join(inner)})" if inner else stage["_target_"])
    return found
