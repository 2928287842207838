"""Find the class or function of a ``_target_``: a Penstock name, a dotted path, or a ``nemo_curator`` name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.compat.missing import explain
from penstock.compat.names import NAMES
from penstock.core.function_stage import FunctionStage
from penstock.errors import RecipeError, suggestion
from penstock.recipe.document import Document, Path

# Modules whose public names may be used without their path, in this order.
CATALOGUES = ("penstock", "penstock.text", "penstock.dedup")

# Classes that a recipe may create, with their subclasses. They are listed by name, so that a recipe does not have to
# import all of them.
MAKEABLE = (
    "penstock.core.stage.ProcessingStage",
    "penstock.core.workflow.WorkflowBase",
    "penstock.core.resources.Resources",
    "penstock.core.executor.Executor",
    "penstock.executors.streaming.StreamingExecutor",
    "penstock.executors.inline.InlineExecutor",
    "penstock.backends.ray.client.RayClient",
    "penstock.text.filters.document_filter.DocumentFilter",
    "penstock.text.modifiers.document_modifier.DocumentModifier",
    "penstock.text.download.urls.URLGenerator",
    "penstock.text.download.downloader.DocumentDownloader",
    "penstock.text.extract.records.DocumentIterator",
    "penstock.text.extract.records.DocumentExtractor",
    "penstock.text.extract.html_algorithms.HTMLExtractorAlgorithm",
)


def find_target(name: str, document: Document, path: Path) -> Any:  # noqa: ANN401 - a class or a stage
    """Return the class, or the stage made by ``@processing_stage``, that a ``_target_`` names.

    Anything else is refused before it is called. A recipe from another machine may use only names of Penstock.
    """
    where = document.where(path)
    if not all(part.isidentifier() for part in name.split(".")):
        raise RecipeError(f"{where}: {name!r} is not the name of a class or function, such as JsonlReader.")
    found = _find(name, document, where)
    if not _may_be_made(found):
        classes = ", ".join(allowed.rpartition(".")[2] for allowed in MAKEABLE)
        raise RecipeError(
            f"{where}: a recipe may not call '{name}'. A _target_ is a class that derives from one of {classes}, or a "
            "function decorated with @processing_stage."
        )
    return found


def _may_be_made(found: Any) -> bool:  # noqa: ANN401
    if isinstance(found, type):
        return any(f"{base.__module__}.{base.__qualname__}" in MAKEABLE for base in found.__mro__)
    return type(found) is FunctionStage


def _find(name: str, document: Document, where: str) -> Any:  # noqa: ANN401
    if "." not in name:
        for catalogue in CATALOGUES:
            if name in import_module(catalogue).__all__:
                return getattr(import_module(catalogue), name)
        raise RecipeError(f"{where}: there is no '{name}' in Penstock.{suggestion(name, _all_names())} "
                          "Your own stages are named with their module: my_module.MyStage.")  # fmt: skip
    if name.startswith("nemo_curator."):
        foreign_module, _, known = name.rpartition(".")
        ours = NAMES.get(foreign_module, {}).get(known)
        if ours is None:
            raise RecipeError(f"{where}: {explain(name)}")
        name = ours.replace(":", ".")
    elif document.is_remote and not name.startswith("penstock."):
        raise RecipeError(
            f"{where}: '{name}': a recipe read from another machine may use only names of Penstock. If you trust it, "
            "save it as a file and run that."
        )
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise RecipeError(f"{where}: '{name}': there is no module '{error.name}'. Modules are searched next to the "
                          "recipe, in the current folder and among installed packages.") from error  # fmt: skip
    except AttributeError as error:
        names = [known for known in dir(import_module(module)) if not known.startswith("_")]
        raise RecipeError(f"{where}: module '{module}' has no '{attribute}'.{suggestion(attribute, names)}") from error


def _all_names() -> list[str]:
    return [name for module in CATALOGUES for name in import_module(module).__all__]
