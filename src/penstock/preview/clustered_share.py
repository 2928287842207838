"""Estimate a share of a population, with a confidence interval, from a sample drawn in clusters. Pure arithmetic."""

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
    """An estimated share with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    # Effective sample size: the number of independently drawn documents with the same precision.
    effective: float


def wilson(share: float, count: float) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a share observed in ``count`` documents.

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
    """Estimate a share from the hits and counts of several clusters of documents.

    ``weights`` is the number of documents of the population that one document of each cluster represents. Neighbouring
    documents resemble each other, so a sample of few clusters is less precise than its size suggests; the variance
    between clusters shows by how much.

    >>> alike = clustered_share([5, 5, 5, 5], [10, 10, 10, 10], [1, 1, 1, 1])
    >>> apart = clustered_share([10, 0, 10, 0], [10, 10, 10, 10], [1, 1, 1, 1])
    >>> alike.value == apart.value, round(alike.effective), round(apart.effective)
    (True, 40, 3)
    """
    hit, count, weight = (np.asarray(values, np.float64) for values in (hits, counts, weights))
    total = float((weight * count).sum())
    if total == 0:
        return Share(0.0, 0.0, 1.0, 0.0)
    value = float((weight * hit).sum() / total)
    size = float(total**2 / (weight**2 * count).sum())
    clusters = int((count > 0).sum())
    variance = value * (1 - value)
    if clusters > 1 and variance > 0:
        between = float(((weight * (hit - value * count)) ** 2).sum()) / total**2 * clusters / (clusters - 1)
        size = min(size, variance / between) if between > 0 else size
    return Share(value, *wilson(value, size), size)
