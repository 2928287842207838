"""Defer the import of pandas, which Arrow triggers with the first array it makes.

The import takes longer than that of all of Penstock. A process that runs only Penstock's own stages never needs it. A
user's stage may pass a pandas series to Arrow, which must recognize it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _WithoutPandas(MetaPathFinder):
    """Import hook that reports pandas as not installed."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raise for pandas; leave all other modules to the other finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)


def put_off_pandas() -> None:
    """Hide pandas from Arrow until a data frame is requested or ``expect_pandas`` is called."""
    if "pandas" in sys.modules:
        return
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


def expect_pandas() -> None:
    """Let Arrow import pandas, as it does by default; do nothing if pandas is not installed."""
    with suppress(ImportError, AttributeError):
        _ = pa.lib._pandas_api.pd
