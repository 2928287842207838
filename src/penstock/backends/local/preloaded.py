"""What every worker begins with: imported once, by the process that all workers are forked from."""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module

from penstock.runtime.freed_memory import keep_freed_memory

keep_freed_memory()
# Nothing of what is loaded here is garbage: to look for some takes a tenth of the time.
gc.disable()

from penstock.kernels.native import prepare_to_load  # noqa: E402 - after what must be set before Arrow is loaded
from penstock.runtime.pandas_later import put_off_pandas  # noqa: E402

put_off_pandas()

_MODULES = (
    "penstock.backends.local.process",
    "penstock.text",
    "penstock.dedup",
    "pyarrow.parquet",
)

for _name in _MODULES:
    with suppress(ImportError):
        import_module(_name)

prepare_to_load()

# What is here now stays: a worker that looked through it for garbage would copy all of it.
gc.freeze()
gc.enable()
