"""One entry of the reference: what a class or function does, takes, reads, writes and raises."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.reference.docstrings import Docstring, described, parse
from penstock.reference.errors_raised import errors_raised
from penstock.reference.trial import Columns, EmptyScore, columns_of, score_of_empty


@dataclass(frozen=True)
class Parameter:
    """A parameter as the signature states it. ``default`` is source text; None if the parameter is required."""

    name: str
    annotation: str
    default: str | None
    text: str = ""


@dataclass(frozen=True)
class Method:
    """A public method or property of a class, with the first line of its docstring."""

    name: str
    signature: str
    summary: str


@dataclass(frozen=True)
class Entry:
    """A public name. Everything is computed when it is asked for, so a table of names stays cheap."""

    name: str
    module: str
    target: Any
    category: str

    @cached_property
    def docstring(self) -> Docstring:
        """The docstring, split into parts."""
        inherited = inspect.isclass(self.target) and "__doc__" not in vars(self.target)
        return parse(None if inherited else self.target.__doc__)

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return self.docstring.summary

    @property
    def example(self) -> str:
        """The doctest of the docstring; empty if there is none."""
        return self.docstring.example

    @property
    def is_stage(self) -> bool:
        """True for a class that can be added to a pipeline."""
        return hasattr(self.target, "with_") and hasattr(self.target, "task_types")

    @property
    def is_filter(self) -> bool:
        """True for a class that scores documents."""
        return hasattr(self.target, "score_document")

    @property
    def reported_as(self) -> str | None:
        """The name under which a filter or stage appears in tables and receipts, where it is a constant."""
        value = getattr(self.target, "name", None)
        return value if isinstance(value, str) and value != self.name else None

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The parameters of the function, or of the constructor."""
        texts = described(self.docstring.sections.get("Args", self.docstring.sections.get("Parameters", [])))
        return [
            Parameter(_starred(given), _annotation(given.annotation), _default(given), texts.get(given.name, ""))
            for given in _signature(self.target).parameters.values()
            if not given.name.startswith("_")
        ]

    @property
    def signature(self) -> str:
        """The call as it would be typed, with defaults."""
        arguments = [one.name if one.default is None else f"{one.name}={one.default}" for one in self.parameters]
        return f"{self.name}({', '.join(arguments)})"

    @cached_property
    def methods(self) -> list[Method]:
        """The public methods and properties that the class itself defines."""
        if not inspect.isclass(self.target):
            return []
        return [
            method for name, member in vars(self.target).items() if not name.startswith("_")
            for method in _method(name, member)
        ]  # fmt: skip

    @cached_property
    def columns(self) -> Columns | None:
        """The task types and columns a stage takes and returns; None for anything else."""
        return columns_of(self.target) if self.is_stage else None

    @cached_property
    def empty_score(self) -> EmptyScore | None:
        """What an empty document scores, found by scoring one; None where that needs a model or a file."""
        return score_of_empty(self.target) if self.is_filter else None

    @cached_property
    def errors(self) -> list[tuple[str, str]]:
        """Errors that the code raises on purpose, with their messages, and those the docstring names."""
        documented = described(self.docstring.sections.get("Raises", []))
        return [*documented.items(), *(one for one in errors_raised(self.target) if one[0] not in documented)]


def _signature(target: Any) -> inspect.Signature:  # noqa: ANN401 - a class or a function
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        return inspect.Signature()


def _starred(given: inspect.Parameter) -> str:
    if given.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"*{given.name}"
    return f"**{given.name}" if given.kind is inspect.Parameter.VAR_KEYWORD else given.name


def _annotation(annotation: Any) -> str:  # noqa: ANN401 - text, because annotations are not evaluated
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _default(given: inspect.Parameter) -> str | None:
    if given.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        return None
    if given.default is inspect.Parameter.empty:
        return None
    shown = repr(given.default)
    return "…" if shown.startswith("<") else shown


def _method(name: str, member: Any) -> list[Method]:  # noqa: ANN401 - whatever a class holds
    if isinstance(member, property):
        return [Method(name, name, parse(member.__doc__).summary)]
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    if not inspect.isfunction(function) or not function.__doc__:
        return []
    names = [_starred(given) for given in _signature(function).parameters.values() if given.name not in ("self", "cls")]
    return [Method(name, f"{name}({', '.join(names)})", parse(function.__doc__).summary)]
