"""The process that all workers are forked from, with everything loaded that they need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext
from typing import Any

_LOADED = "penstock.backends.local.preloaded"
_LOADED_FOR_OTHERS = "penstock.backends.local.preloaded_for_others"


def fork_server(*, dedup_only: bool) -> ForkServerContext:
    """Return what processes are started with; how much it has loaded is decided by who is the first to ask."""
    context = get_context("forkserver")
    context.set_forkserver_preload([_LOADED] if dedup_only else [_LOADED, _LOADED_FOR_OTHERS])
    return context


def start_early(*, dedup_only: bool) -> None:
    """Let it begin to load, in a process of its own, while whoever calls has other things to do."""
    fork_server(dedup_only=dedup_only)
    with without_main():
        forkserver.ensure_running()


@contextmanager
def without_main() -> Iterator[None]:
    """Start a process without running the user's script again in it.

    The standard library imports the main module anew in every process it spawns, which would start the pipeline of a
    script without an ``if __name__ == "__main__"`` once more. What workers need of it travels inside the pickle.
    """
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {name: vars(main).pop(name) for name in ("__spec__", "__file__") if name in vars(main)}
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)
