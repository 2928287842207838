"""Preload what exact deduplication of Parquet files needs; it runs no compiled kernels, so Numba is not loaded."""

from __future__ import annotations

from importlib import import_module

from penstock.preload import preloading

with preloading():
    for _name in ("exact", "index", "duplicate_table", "removal"):
        import_module(f"penstock.dedup.{_name}")
    for _name in ("parquet", "row_groups"):
        import_module(f"penstock.text.io.{_name}")
