"""Union-find: compute the connected components of a graph given as pairs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.kernels.native import native

Numbers = npt.NDArray[np.int64]


@native
def connect(parents: Numbers, pairs: Numbers) -> None:
    """Connect pairs; every item then points at the smallest item of its component.

    Call it once for each part of the pairs; ``parents`` begins as ``arange``.
    """
    for i in range(pairs.shape[0]):
        first, second = _root(parents, pairs[i, 0]), _root(parents, pairs[i, 1])
        if first < second:
            parents[second] = first
        elif second < first:
            parents[first] = second
    for i in range(parents.shape[0]):
        parents[i] = parents[parents[i]]


@native
def _root(parents: Numbers, at: np.int64) -> np.int64:
    while parents[at] != at:
        parents[at] = parents[parents[at]]
        at = parents[at]
    return at
