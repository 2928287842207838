"""Loading what stays as long as a process does, and all that are forked from it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def for_good() -> Iterator[None]:
    """Look for no garbage, now or later: there is none, and a worker that looked would copy every page it looks at."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
