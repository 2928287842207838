"""Loading what stays as long as a process does, and all that are forked from it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def for_good() -> Iterator[None]:
    """Look for no garbage, now or later: there is none, and a worker that looked would copy every page it looks at.

    What cannot be loaded is left to the workers, which report why; the process that they are forked from would die.
    """
    gc.disable()
    try:
        yield
    except Exception as error:
        raise ImportError(f"not loaded: {error}") from error
    finally:
        gc.freeze()
        gc.enable()


def everything_of(package: str) -> None:
    """Load all that a package offers, which otherwise is loaded when it is used."""
    module = import_module(package)
    for name in module.__all__:
        getattr(module, name)
