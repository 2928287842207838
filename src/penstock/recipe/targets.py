"""What a ``_target_`` names: a short name of ours, a dotted path of anybody's, or a name users know from elsewhere."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.compat.missing import explain
from penstock.compat.names import NAMES
from penstock.errors import RecipeError, suggestion

# Modules whose public names may be written without their path, in this order.
CATALOGUES = ("penstock", "penstock.text", "penstock.dedup")


def find_target(name: str, where: str) -> Any:  # noqa: ANN401 - a class or a function
    """Return what a ``_target_`` names."""
    if "." not in name:
        for module in CATALOGUES:
            if name in import_module(module).__all__:
                return getattr(import_module(module), name)
        raise RecipeError(f"{where}: there is no '{name}' in Penstock.{suggestion(name, _all_names())} "
                          "Your own stages are named with their module: my_module.MyStage.")  # fmt: skip
    if name.startswith("nemo_curator."):
        foreign_module, _, known = name.rpartition(".")
        ours = NAMES.get(foreign_module, {}).get(known)
        if ours is None:
            raise RecipeError(f"{where}: {explain(name)}")
        name = ours.replace(":", ".")
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise RecipeError(f"{where}: '{name}': there is no module '{error.name}'. Modules are looked for beside the "
                          "recipe, in the current folder and among installed packages.") from error  # fmt: skip
    except AttributeError as error:
        names = [known for known in dir(import_module(module)) if not known.startswith("_")]
        raise RecipeError(f"{where}: module '{module}' has no '{attribute}'.{suggestion(attribute, names)}") from error


def _all_names() -> list[str]:
    return [name for module in CATALOGUES for name in import_module(module).__all__]
