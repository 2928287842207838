"""Every public name, sorted into the categories that the reference and ``penstock list`` show."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from penstock.core.composite import CompositeStage
from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.stage import ProcessingStage
from penstock.core.workflow import WorkflowBase
from penstock.errors import PenstockError
from penstock.reference.entry import Entry
from penstock.reference.trial import task_types

# Modules whose __all__ is public.
PUBLIC_MODULES = ("penstock", "penstock.text", "penstock.dedup", "penstock.testing")
# Errors are public too; they are listed from where they are defined.
_ERROR_MODULES = ("penstock.errors", "penstock.compat.missing")

# What each category holds, in the order of the reference.
CATEGORIES: Mapping[str, str] = {
    "core": "Pipelines, stages, tasks, resources and executors",
    "filters": "Filters score documents and decide which to keep; rule sets combine several",
    "modifiers": "Modifiers change the text of documents; give them to Modify",
    "classifiers": "Classifiers label documents with a model",
    "readers": "Readers turn files into batches of documents",
    "writers": "Writers turn batches of documents into files",
    "stages": "Stages that are neither readers nor writers",
    "sources": "Parts of which downloads and extractions are made",
    "workflows": "Workflows run several pipelines that belong together",
    "bases": "Base classes for filters, modifiers and sources of your own",
    "testing": "Functions and stages for tests of your own stages",
    "errors": "Every error that Penstock raises on purpose",
}
# The categories that `penstock list` offers, recipes besides.
LISTED = ("filters", "modifiers", "classifiers", "readers", "writers", "stages", "workflows")


@cache
def entries() -> Mapping[str, Entry]:
    """Return an entry for every public name.

    >>> entries()["WordCountFilter"].category, entries()["JsonlReader"].category
    ('filters', 'readers')
    """
    found: dict[str, Entry] = {}
    for module, name, target in _public_names():
        found.setdefault(name, Entry(name, module, target, _category(name, module, target)))
    return found


def in_category(category: str) -> list[Entry]:
    """Return the entries of a category, by name."""
    return sorted((entry for entry in entries().values() if entry.category == category), key=lambda entry: entry.name)


def see_also(entry: Entry) -> list[Entry]:
    """Return the public names defined in the same file, and the base classes that are public."""
    documented = [entries()[name] for name in _named(entry) if name in entries()]
    neighbours = [
        other for other in entries().values()
        if other.target.__module__ == entry.target.__module__ and other.category == entry.category
    ]  # fmt: skip
    bases = [
        entries()[cls.__name__] for cls in getattr(entry.target, "__mro__", ())
        if cls.__name__ in entries() and entries()[cls.__name__].target is cls
    ]  # fmt: skip
    return [*{other.name: other for other in [*documented, *neighbours, *bases] if other.name != entry.name}.values()]


def _named(entry: Entry) -> list[str]:
    lines = " ".join(entry.docstring.sections.get("See also", []))
    return [name.strip(" .") for name in lines.split(",")]


def _public_names() -> Iterator[tuple[str, str, Any]]:
    for path in PUBLIC_MODULES:
        module = import_module(path)
        yield from ((path, name, getattr(module, name)) for name in module.__all__)
    for path in _ERROR_MODULES:
        for name, thing in vars(import_module(path)).items():
            if inspect.isclass(thing) and issubclass(thing, PenstockError) and thing.__module__ == path:
                yield path, name, thing


def _category(name: str, module: str, target: Any) -> str:  # noqa: ANN401 - a class or a function
    if module == "penstock.testing":
        return "testing"
    if not inspect.isclass(target):
        return "core" if module == "penstock" else "sources"
    if issubclass(target, Exception):
        return "errors"
    if issubclass(target, WorkflowBase):
        return "workflows"
    if module == "penstock":
        return "core"
    if name.endswith("Classifier"):
        return "classifiers"
    if issubclass(target, ProcessingStage):
        return _stage_category(target)
    if _is_base(target):
        return "bases"
    return next((kind for method, kind in _MARKS.items() if hasattr(target, method)), "sources")


# The method that every class of a category has.
_MARKS = {"score_document": "filters", "modify_document": "modifiers"}


def _stage_category(target: type[ProcessingStage[Any, Any]]) -> str:
    takes, returns = task_types(target)
    if returns is DocumentBatch and takes is not DocumentBatch:
        return "readers"
    if takes is DocumentBatch and returns is FileGroupTask:
        return "writers"
    # A composite that takes documents stands for filters: the rule sets.
    return "filters" if issubclass(target, CompositeStage) and takes is DocumentBatch else "stages"


def _is_base(target: type) -> bool:
    """Tell whether another public class is derived from this one and it leaves a method to be written."""
    source = inspect.getsource(target)
    return "raise NotImplementedError" in source or target.__name__ == "TextModifier"
