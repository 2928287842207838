"""How much of a whole each stage will drop, judged by a sample that was taken in clusters. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

_Z_95 = 1.959964

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """A share of the whole, and between which bounds it lies in 95 of 100 cases."""

    value: float
    low: float
    high: float
    # How many documents drawn one by one would tell as much.
    effective: float


def wilson(share: float, count: float) -> tuple[float, float]:
    """Return the bounds of a share seen among so many.

    >>> [round(bound, 4) for bound in wilson(0.5, 100)]
    [0.4038, 0.5962]
    >>> [round(bound, 4) for bound in wilson(0.0, 300)]
    [0.0, 0.0126]
    """
    if count <= 0:
        return 0.0, 1.0
    square = _Z_95**2
    centre = (share + square / (2 * count)) / (1 + square / count)
    half = _Z_95 / (1 + square / count) * sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, centre - half), min(1.0, centre + half)


def clustered_share(hits: Sequence[int], counts: Sequence[int], weights: Sequence[float]) -> Share:
    """Estimate a share from places, of which each stands for a part of the whole.

    ``weights`` says how many documents of the whole one drawn at each place stands for. Documents that lie side by side
    resemble each other, so a sample of few places tells less than its size: the spread between places says how much.

    >>> alike = clustered_share([5, 5, 5, 5], [10, 10, 10, 10], [1, 1, 1, 1])
    >>> apart = clustered_share([10, 0, 10, 0], [10, 10, 10, 10], [1, 1, 1, 1])
    >>> alike.value == apart.value, round(alike.effective), round(apart.effective)
    (True, 40, 3)
    """
    hit, count, weight = (np.asarray(given, np.float64) for given in (hits, counts, weights))
    total = float((weight * count).sum())
    if total == 0:
        return Share(0.0, 0.0, 1.0, 0.0)
    value = float((weight * hit).sum() / total)
    size = float(total**2 / (weight**2 * count).sum())
    places = int((count > 0).sum())
    variance = value * (1 - value)
    if places > 1 and variance > 0:
        between = float(((weight * (hit - value * count)) ** 2).sum()) / total**2 * places / (places - 1)
        size = min(size, variance / between) if between > 0 else size
    return Share(value, *wilson(value, size), size)
