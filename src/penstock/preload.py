"""Import modules in the process that workers are forked from, so that workers need not import them again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def preloading() -> Iterator[None]:
    """Disable the garbage collector inside the block, and exclude the objects that remain from later collections.

    A collection in a worker would copy every memory page that it visits. Any exception becomes an ``ImportError``,
    which the fork server ignores: the workers import the module themselves and report the error.
    """
    gc.disable()
    try:
        yield
    except Exception as error:
        raise ImportError(f"not loaded: {error}") from error
    finally:
        gc.freeze()
        gc.enable()


def import_public_names(package: str) -> None:
    """Import all public names of a package, which are otherwise imported on first use."""
    module = import_module(package)
    for name in module.__all__:
        getattr(module, name)
