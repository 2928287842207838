"""Which sequences go through a model together: batches of a number of tokens, not of rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt


def pack(lengths: Sequence[int] | npt.NDArray[np.integer], max_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the positions of sequences in batches of at most ``max_tokens`` tokens, longest sequences first.

    Sequences of similar length are together, so that little is lost where a model pads. A sequence longer than
    ``max_tokens`` is a batch of its own. The batches follow from the lengths alone.

    >>> [batch.tolist() for batch in pack([3, 9, 4, 1], max_tokens=8)]
    [[1], [2, 0, 3]]
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    first = total = 0
    for number, size in enumerate(sizes[order].tolist()):
        if number > first and total + size > max_tokens:
            yield order[first:number]
            first, total = number, 0
        total += size
    if len(order):
        yield order[first:]
