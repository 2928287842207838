"""What every worker begins with: imported once, by the process that all workers are forked from."""

from __future__ import annotations

from importlib import import_module

from penstock.backends.local.for_good import everything_of, for_good
from penstock.runtime.freed_memory import keep_freed_memory

keep_freed_memory()  # before Arrow is loaded

with for_good():
    from penstock.kernels.native import prepare_to_load
    from penstock.runtime.pandas_later import put_off_pandas

    put_off_pandas()
    prepare_to_load()
    # By name: workers know stages, this layer does not.
    everything_of("penstock.dedup")
    for _name in ("penstock.backends.local.process", "fsspec.implementations.local", "pyarrow.parquet"):
        import_module(_name)
    import_module("penstock.dedup.rehearsal").rehearse()
