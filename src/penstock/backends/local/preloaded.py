"""What every worker begins with: imported once, by the process that all workers are forked from.

All that exact deduplication of Parquet files needs.
"""

from __future__ import annotations

from importlib import import_module

from penstock.backends.local.preload import for_good
from penstock.runtime.freed_memory import keep_freed_memory
from penstock.runtime.limits import let_threads_sleep

keep_freed_memory()  # before Arrow is loaded
let_threads_sleep()  # and NumPy

with for_good():
    from penstock.runtime.pandas_later import put_off_pandas

    put_off_pandas()
    # By name: workers know stages, this layer does not. The last ones NumPy and fsspec would load when first used.
    for _name in (
        "penstock.backends.local.process",
        "penstock.dedup.exact",
        "penstock.dedup.index",
        "penstock.dedup.duplicate_table",
        "penstock.dedup.removal",
        "penstock.text.io.parquet",
        "penstock.text.io.row_groups",
        "pyarrow.parquet",
        "numpy.ma",
        "fsspec.implementations.chained",
        "fsspec.implementations.local",
    ):
        import_module(_name)
