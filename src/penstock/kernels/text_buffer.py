"""Access the bytes of a text column with NumPy: one buffer, and the offsets of the texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def text_buffer(texts: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the UTF-8 of all texts and their offsets, without copying if possible; a null text is empty.

    >>> data, offsets = text_buffer(pa.array(["ab", None, "c"]))
    >>> bytes(data[offsets[0]:offsets[-1]]), offsets.tolist()
    (b'abc', [0, 2, 2, 3])
    """
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks() if texts.num_chunks != 1 else texts.chunk(0)
    if not pa.types.is_large_string(texts.type):
        texts = texts.cast(pa.large_string())
    if texts.null_count:
        texts = pc.fill_null(texts, "")
    _, borders, content = texts.buffers()
    offsets, data = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    if borders is not None and len(texts):
        offsets = np.frombuffer(borders, dtype=np.int64, count=len(texts) + 1, offset=texts.offset * 8)
        data = np.frombuffer(content, dtype=np.uint8) if content is not None else data
    for array in (offsets, data):
        array.setflags(write=False)  # always read-only: kernels are compiled for one kind of array
    return data, offsets
