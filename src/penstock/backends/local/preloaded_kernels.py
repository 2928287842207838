"""What workers begin with that run compiled kernels: Numba, all of deduplication, and its code ready to run."""

from __future__ import annotations

from importlib import import_module

from penstock.backends.local.preload import everything_of, for_good

with for_good():
    from penstock.kernels.native import prepare_to_load

    prepare_to_load()
    everything_of("penstock.dedup")
    import_module("penstock.dedup.warm_up").rehearse()
