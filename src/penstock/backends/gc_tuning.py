"""Cyclic garbage is looked for less often while a run lasts: a seventh of the driver's time went into that."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Tasks on their way are many small objects, none of them in a cycle; by default 700 new ones begin a search.
_NEW_OBJECTS = 200_000


@contextmanager
def rarely_searched() -> Iterator[None]:
    """Let more objects come together before Python looks for cycles, and leave its setting as it was."""
    before = gc.get_threshold()
    if 0 < before[0] < _NEW_OBJECTS:
        gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
