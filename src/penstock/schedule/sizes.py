"""Estimate sizes: mean, quantiles and maximum."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import exp, floor, log

# Sizes are counted in classes, each 5 % larger than the one before: this is the precision of a quantile.
_STEP = log(1.05)


@dataclass
class SizeEstimate:
    """Sizes of a pool's outputs, or of its workers."""

    count: int = 0
    total: int = 0
    largest: int = 0
    _classes: Counter[int] = field(default_factory=Counter, repr=False)

    def observe(self, size: int) -> None:
        """Add one size."""
        self.count += 1
        self.total += size
        self.largest = max(self.largest, size)
        self._classes[floor(log(max(size, 1)) / _STEP)] += 1

    @property
    def mean(self) -> float:
        """The mean; 0 before the first size."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """Return a quantile of the sizes, with 5 % precision; 0 before the first size.

        >>> sizes = SizeEstimate()
        >>> for size in range(1, 1001):
        ...     sizes.observe(size)
        >>> 950 <= sizes.quantile(0.95) <= 1000
        True
        """
        below = 0
        for index in sorted(self._classes):
            below += self._classes[index]
            if below >= share * self.count:
                return min(float(self.largest), exp((index + 1) * _STEP))
        return 0.0
