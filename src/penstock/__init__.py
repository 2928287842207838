"""Penstock curates training data for large models: read, clean, filter, deduplicate, write.

The most common names are offered here; each is loaded on first use, so that ``import penstock`` is fast.
"""

from __future__ import annotations

from penstock.core.executor import Executor, set_default_executor
from penstock.lazy import offered

__version__ = "0.1.0"

__getattr__, _names, __all__ = offered(__name__, __file__)


def __dir__() -> list[str]:
    return sorted([*_names(), "__version__"])


def _make_default_executor() -> Executor:
    from penstock.executors.streaming import StreamingExecutor

    return StreamingExecutor()


set_default_executor(_make_default_executor)
