"""Preload all of deduplication in the process that workers are forked from, with its kernels ready to run."""

from __future__ import annotations

from penstock.preload import import_public_names, preloading

with preloading():
    from penstock.kernels.native import prepare_to_load

    prepare_to_load()
    import_public_names("penstock.dedup")
    from penstock.dedup.warm_up import rehearse

    rehearse()
