"""The task classes a stage accepts and returns, from its type hints."""

from __future__ import annotations

import types
import typing
from typing import Any

from penstock.core.task import Task


def kinds_of(annotation: Any) -> tuple[type, ...] | None:  # noqa: ANN401 - any type hint
    """Return the task classes that a type hint names; None if it names none.

    >>> from penstock.core.documents import DocumentBatch
    >>> kinds_of(list[DocumentBatch] | None)
    (<class 'penstock.core.documents.DocumentBatch'>,)
    >>> kinds_of(Any) is None
    True
    """
    if isinstance(annotation, type) and issubclass(annotation, Task):
        return (annotation,)
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, list):
        found = [kinds_of(part) for part in typing.get_args(annotation) if part is not type(None)]
        if any(kinds is None for kinds in found):
            return None
        return tuple(kind for kinds in found for kind in kinds or ())
    if isinstance(origin, type) and issubclass(origin, Task):
        return (origin,)
    return None


def fits(given: tuple[type, ...] | None, wanted: tuple[type, ...] | None) -> bool:
    """Tell whether a task of the given classes may be of a wanted class; unknown classes fit everything."""
    if not given or not wanted:
        return True
    return any(issubclass(one, other) or issubclass(other, one) for one in given for other in wanted)


def kind_name(kinds: tuple[type, ...] | None) -> str:
    """Return the names of the classes, joined by "or"."""
    return " or ".join(kind.__name__ for kind in kinds or (Task,))
