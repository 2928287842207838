"""Create the objects that ``_target_`` mappings of a recipe describe."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import date, datetime
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from penstock.compat.stage_specs import STAGE_SPECS
from penstock.core.function_stage import FunctionStage
from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage
from penstock.errors import PenstockError, RecipeError, suggestion
from penstock.recipe.document import Document, Path
from penstock.recipe.targets import find_target

# Keys that every stage accepts as settings, unless its constructor has a parameter of that name.
_STAGE_SETTINGS = (
    "resources",
    "batch_size",
    "name",
    "num_workers",
    "runtime_env",
    "max_worker_lifetime_s",
    "max_tasks_per_worker",
    "max_worker_growth_gb",
    "worker_restart_interval_s",
    *STAGE_SPECS,
)

# Types of the YAML values 2024, 0.1, 2024-10-01, yes and null.
_NOT_TEXT = (int, float, date, datetime, bool, type(None))
# Settings that fetch and run other code; not allowed in a recipe from another machine.
_RUN_FOREIGN_CODE = ("runtime_env", "trust_remote_code")


def instantiate(value: Any, document: Document, path: Path) -> Any:  # noqa: ANN401 - any YAML value, any object
    """Return the data with every mapping that has a ``_target_`` replaced by the object it describes."""
    if isinstance(value, list):
        return [instantiate(part, document, (*path, i)) for i, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    for key in _RUN_FOREIGN_CODE if document.is_remote else ():
        if value.get(key):
            raise RecipeError(
                f"{document.where((*path, key))}: a recipe read from another machine may not set {key}, which runs "
                "code that is not part of Penstock. If you trust it, save it as a file and run that."
            )
    parts = {key: instantiate(part, document, (*path, key)) for key, part in value.items()}
    return _make(parts, document, path) if "_target_" in parts else parts


def _make(parts: dict[str, Any], document: Document, path: Path) -> Any:  # noqa: ANN401
    where = document.where(path)
    name = parts.pop("_target_")
    if not isinstance(name, str):
        raise RecipeError(f"{where}: _target_ is {name!r}; expected the name of a class or function.")
    target = find_target(name, document, (*path, "_target_"))
    is_function = isinstance(target, FunctionStage)
    parameters, takes_any = ([], False) if is_function else _parameters(target)
    settings = {}
    if is_function or issubclass(target, ProcessingStage):
        settings = {key: parts.pop(key) for key in _STAGE_SETTINGS if key in parts and key not in parameters}
    for key in parts:
        if key not in parameters and not takes_any:
            raise RecipeError(
                f"{document.where((*path, key))}: {name} has no parameter '{key}'; it has "
                f"{', '.join(parameters) or 'none'}.{suggestion(key, parameters)}"
            )
    _check_texts(target, parts, name, document, path)
    try:
        made = target if is_function else target(**parts)
        return _with_settings(made, settings) if settings else made
    except PenstockError:
        raise
    except (TypeError, ValueError) as error:
        raise RecipeError(f"{where}: {name}: {error}") from error


def _parameters(target: Any) -> tuple[list[str], bool]:  # noqa: ANN401
    parameters = inspect.signature(target).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return named, takes_any


def _check_texts(target: Any, parts: Mapping[str, Any], name: str, document: Document, path: Path) -> None:  # noqa: ANN401
    """Refuse a number, date, boolean or null for a text parameter: usually a path without quotes."""
    suspects = {key: value for key, value in parts.items() if type(value) in _NOT_TEXT}
    if not suspects:
        return
    try:
        hints = get_type_hints(target.__init__)
    except (NameError, TypeError, AttributeError):  # annotations that only a type checker can read
        return
    for key, value in suspects.items():
        hint = hints.get(key)
        taken = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        fits = type(value) in taken or Any in taken or (type(value) is int and float in taken)
        if str in taken and not fits:
            raise RecipeError(
                f"{document.where((*path, key))}: {name} expects text for '{key}'; YAML reads this value as {value!r}. "
                'Put it in quotes: "2024" in a recipe, \'key="2024"\' on the command line.'
            )


def _with_settings(stage: ProcessingStage[Any, Any], settings: dict[str, Any]) -> ProcessingStage[Any, Any]:
    if isinstance(settings.get("resources"), dict):
        settings["resources"] = Resources(**settings["resources"])
    for key, translate in STAGE_SPECS.items():  # of recipes written for NeMo Curator
        if key in settings:
            settings = {**translate(settings.pop(key)), **settings}
    return stage.with_(**settings)
