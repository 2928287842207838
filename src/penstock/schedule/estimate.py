"""What is known about each pool from what was seen of it: speed, fan-out, sizes, start-up time. Nothing is made up.

The rate is total time on test: items done over busy time, where busy time includes the age of what is still running. A
mean over finished tasks alone would read far too fast at the start, when only the quick ones have finished.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import log, sqrt

_MIN_HALF_LIFE_S = 15.0
_HALF_LIFE_IN_SERVICES = 20.0
_KEPT_AFTER_SHIFT = 0.2
_TASKS_KEPT_AFTER_SHIFT = 3.0
# When a shift is a shift: excess over the mean, in standard deviations, less what is noise, summed up to this much.
_SHIFT_TOLERANCE = 0.5
_SHIFT_THRESHOLD = 12.0
_LARGEST_EXCESS = 3.0
_LEAST_SPREAD = 0.1
_SETTLED_AFTER = 8


@dataclass
class RateEstimate:
    """How many items one worker of a pool does per second, old news counting less and less."""

    items: float = 0.0
    seconds: float = 0.0
    tasks: float = 0.0
    _squares: float = 0.0
    _last: float = 0.0
    _log_mean: float = 0.0
    _log_squares: float = 0.0
    _log_count: int = 0
    _rise: float = 0.0
    _fall: float = 0.0

    def observe(self, now: float, items: float, seconds: float) -> bool:
        """Take one finished task in; return True if it shows that the pool has become faster or slower for good."""
        self._forget(now)
        self.items += items
        self.seconds += seconds
        self.tasks += 1
        per_item = seconds / max(items, 1e-12)
        self._squares += per_item * per_item
        if self._shifted(log(max(per_item, 1e-9))):
            self._scale(min(_KEPT_AFTER_SHIFT, _TASKS_KEPT_AFTER_SHIFT / self.tasks))
            self._log_mean, self._log_squares, self._log_count, self._rise, self._fall = 0.0, 0.0, 0, 0.0, 0.0
            return True
        return False

    def rate(self, ages_in_flight: Iterable[float] = ()) -> float | None:
        """Return items per second of one worker; None before anything was finished.

        >>> estimate = RateEstimate()
        >>> estimate.observe(1.0, items=1, seconds=0.5)
        False
        >>> estimate.rate(), estimate.rate(ages_in_flight=[1.5])
        (2.0, 0.5)
        """
        busy = self.seconds + sum(ages_in_flight)
        return self.items / busy if self.items > 0 and busy > 0 else None

    @property
    def service_seconds(self) -> float:
        """How long one task takes on average; 0 before anything was finished."""
        return self.seconds / self.tasks if self.tasks else 0.0

    @property
    def relative_error(self) -> float:
        """How far off the rate may be (one standard error), as a share of it."""
        if self.tasks < 2 or self.items <= 0:
            return 1.0
        mean = self.seconds / self.items
        variance = max(0.0, self._squares / self.tasks - mean * mean)
        return sqrt(variance) / mean / sqrt(self.tasks) if mean > 0 else 1.0

    def _forget(self, now: float) -> None:
        half_life = max(_MIN_HALF_LIFE_S, _HALF_LIFE_IN_SERVICES * self.service_seconds)
        self._scale(0.5 ** (max(0.0, now - self._last) / half_life))
        self._last = now

    def _scale(self, weight: float) -> None:
        """Let all that was seen count less."""
        self.items *= weight
        self.seconds *= weight
        self.tasks *= weight
        self._squares *= weight

    def _shifted(self, value: float) -> bool:
        """Tell whether service times have left where they were: Page-Hinkley on their logarithm, in its own spread."""
        self._log_count += 1
        excess = value - self._log_mean
        self._log_mean += excess / self._log_count
        self._log_squares += excess * (value - self._log_mean)
        if self._log_count <= _SETTLED_AFTER:
            return False
        spread = max(_LEAST_SPREAD, sqrt(self._log_squares / self._log_count))
        excess = max(-_LARGEST_EXCESS, min(_LARGEST_EXCESS, excess / spread))
        self._rise = max(0.0, self._rise + excess - _SHIFT_TOLERANCE)
        self._fall = max(0.0, self._fall - excess - _SHIFT_TOLERANCE)
        return max(self._rise, self._fall) > _SHIFT_THRESHOLD


@dataclass
class SizeEstimate:
    """How large the outputs of a pool are."""

    count: int = 0
    total: int = 0
    largest: int = 0

    def observe(self, size: int) -> None:
        """Take one output in."""
        self.count += 1
        self.total += size
        self.largest = max(self.largest, size)

    @property
    def mean(self) -> float:
        """The average; 0 before anything was seen."""
        return self.total / self.count if self.count else 0.0


@dataclass
class PoolEstimate:
    """Everything known about one pool."""

    rate: RateEstimate = field(default_factory=RateEstimate)
    outputs: SizeEstimate = field(default_factory=SizeEstimate)
    items_in: int = 0
    items_out: int = 0
    start_up_seconds: float | None = None

    def finished(self, now: float, items: int, outputs: int, seconds: float) -> bool:
        """Take one finished batch in; True if the pool's speed has shifted."""
        self.items_in += items
        self.items_out += outputs
        return self.rate.observe(now, items, seconds)

    def started(self, seconds: float) -> None:
        """Take in how long a worker took from its start until it was ready."""
        self.start_up_seconds = seconds if self.start_up_seconds is None else 0.5 * (self.start_up_seconds + seconds)

    @property
    def fan_out(self) -> float:
        """How many items come out for one that goes in; 1 before anything was seen."""
        return self.items_out / self.items_in if self.items_in else 1.0

    @property
    def output_bytes_per_item(self) -> float:
        """How many bytes come out for one item that goes in."""
        return self.outputs.total / self.items_in if self.items_in else 0.0
