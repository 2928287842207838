"""Preload what every worker needs, in the process that workers are forked from: the worker loop, Arrow and fsspec."""

from __future__ import annotations

from importlib import import_module

from penstock.preload import preloading
from penstock.runtime.freed_memory import keep_freed_memory
from penstock.runtime.limits import let_threads_sleep

keep_freed_memory()  # before Arrow is loaded
let_threads_sleep()  # and NumPy

with preloading():
    from penstock.runtime.pandas_later import put_off_pandas

    put_off_pandas()
    # NumPy and fsspec would import the last ones on first use.
    for _name in (
        "penstock.backends.local.process",
        "pyarrow.parquet",
        "numpy.ma",
        "fsspec.implementations.chained",
        "fsspec.implementations.local",
    ):
        import_module(_name)
