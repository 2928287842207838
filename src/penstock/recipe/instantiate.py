"""``_target_`` mappings made into objects."""

from __future__ import annotations

import inspect
from typing import Any

from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage
from penstock.errors import PenstockError, RecipeError, suggestion
from penstock.recipe.document import Document, Path
from penstock.recipe.targets import find_target

# Keys of a stage that are settings of every stage, unless its own constructor takes them.
_STAGE_SETTINGS = (
    "resources",
    "batch_size",
    "name",
    "num_workers",
    "runtime_env",
    "xenna_stage_spec",
    "ray_stage_spec",
)


def instantiate(value: Any, document: Document, path: Path) -> Any:  # noqa: ANN401 - data in, anything out
    """Return the data with every mapping that has a ``_target_`` replaced by the object it describes."""
    if isinstance(value, list):
        return [instantiate(part, document, (*path, i)) for i, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    parts = {key: instantiate(part, document, (*path, key)) for key, part in value.items()}
    return _make(parts, document, path) if "_target_" in parts else parts


def _make(parts: dict[str, Any], document: Document, path: Path) -> Any:  # noqa: ANN401
    where = document.where(path)
    name = parts.pop("_target_")
    if not isinstance(name, str):
        raise RecipeError(f"{where}: _target_ is {name!r}; it is the name of a class or function.")
    target = find_target(name, document.where((*path, "_target_")))
    parameters, takes_any = _parameters(target)
    settings = {}
    if isinstance(target, type) and issubclass(target, ProcessingStage):
        settings = {key: parts.pop(key) for key in _STAGE_SETTINGS if key in parts and key not in parameters}
    for key in parts:
        if key not in parameters and not takes_any:
            raise RecipeError(
                f"{document.where((*path, key))}: {name} takes no '{key}'; it takes "
                f"{', '.join(parameters) or 'nothing'}.{suggestion(key, parameters)}"
            )
    try:
        made = target(**parts)
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


def _with_settings(stage: ProcessingStage[Any, Any], settings: dict[str, Any]) -> ProcessingStage[Any, Any]:
    if isinstance(settings.get("resources"), dict):
        settings["resources"] = Resources(**settings["resources"])
    return stage.with_(**settings)
