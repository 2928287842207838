"""What every worker begins with: imported once, by the process that all workers are forked from."""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module
from typing import Any

from penstock.runtime.freed_memory import keep_freed_memory

keep_freed_memory()
# Nothing of what is loaded here is garbage: to look for some takes a tenth of the time.
gc.disable()

from numba.core.registry import cpu_target  # noqa: E402 - after what must be set before Arrow is loaded

_MODULES = (
    "penstock.backends.local.process",
    "penstock.text",
    "penstock.dedup",
    "pyarrow.parquet",
    "pandas",  # where it is installed, Arrow imports it when it first makes an array of anything
)

for _name in _MODULES:
    with suppress(ImportError):
        import_module(_name)

# Otherwise Numba does this when the first kernel is called, which takes longer than to load the kernel.
_target: Any = cpu_target
_target.typing_context.refresh()
_target.target_context.refresh()

# What is here now stays: a worker that looked through it for garbage would copy all of it.
gc.freeze()
gc.enable()
