"""Read and write NumPy arrays: writes are atomic, local files are memory-mapped."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of, is_local, open_stored


def save_array(path: str, array: npt.NDArray[Any], *, durable: bool = True) -> None:
    """Write an array atomically. A file that every run writes again need not be ``durable``."""
    with atomic_write(path, durable=durable) as stream:
        np.save(stream, array, allow_pickle=False)


def load_array(path: str) -> npt.NDArray[Any]:
    """Open an array. A local file is memory-mapped, so only the parts that are accessed take memory."""
    filesystem, name = filesystem_of(path)
    if is_local(filesystem):
        return np.load(name, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    with open_stored(path) as stream:
        loaded: npt.NDArray[Any] = np.load(stream, allow_pickle=False)
    return loaded
