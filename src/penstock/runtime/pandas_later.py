"""Arrow imports pandas when it first makes an array of anything, which takes longer than all of Penstock: put it off.

A process that runs only Penstock's own stages never needs it. Anybody else's may hand a pandas series to Arrow, which
has to know what that is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _WithoutPandas(MetaPathFinder):
    """Finds no pandas, whatever is installed."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Refuse pandas, and leave everything else to the others."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)


def put_off_pandas() -> None:
    """Let Arrow find no pandas when it looks for it, until it is asked for a frame or ``expect_pandas`` is called."""
    if "pandas" in sys.modules:
        return
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


def expect_pandas() -> None:
    """Let Arrow know pandas as it usually does; nothing changes where it is not installed."""
    with suppress(ImportError, AttributeError):
        _ = pa.lib._pandas_api.pd
