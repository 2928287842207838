"""What is known about each pool from what was seen of it: speed, fan-out, sizes, start-up time. Nothing is made up.

The rate is total time on test: items done over busy time, where busy time includes the age of what is still running. A
mean over finished tasks alone would read far too fast at the start, when only the quick ones have finished.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import NamedTuple

from penstock.schedule.sizes import SizeEstimate

_MIN_HALF_LIFE_S = 15.0
_HALF_LIFE_IN_SERVICES = 20.0
_FEW_TASKS = 2
_USUAL_VARIANCE = 0.25
# Up to so many mean times a running task is no slower than the finished ones.
_NOT_LONGER = 1.1
# When a shift is a shift: excess over the mean, in standard deviations, less what is noise, summed up to this much.
_SHIFT_TOLERANCE = 0.5
_SHIFT_THRESHOLD = 12.0
# Below that it is mere noise: what was seen until then belongs to the time before.
_NOISE = 3.0
_LARGEST_EXCESS = 3.0
_FEW_WITNESSES = 8
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
    # What was begun before the last shift says nothing about the time after it, however late it ends.
    _shifted_at: float = -inf
    _watch: ShiftWatch = field(default_factory=lambda: ShiftWatch())

    def observe(self, now: float, items: float, seconds: float, in_flight: int = 1) -> bool:
        """Take one finished task in; return True if it shows that the pool has become faster or slower for good.

        ``in_flight`` is how many tasks of the pool run at the same time.
        """
        self._forget(now)
        if now - seconds < self._shifted_at:
            return False
        per_item = seconds / max(items, 1e-12)
        self.items += items
        self.seconds += seconds
        self.tasks += 1
        self._squares += per_item * per_item
        if not self._watch.observe(now, items, seconds, in_flight):
            return False
        # What was seen since the change is all that counts now.
        drift = self._watch.stronger
        self.items, self.seconds, self.tasks, self._squares, _ = (
            drift.begun_since if drift.begun_since.tasks else drift.seen
        )
        self._shifted_at = drift.since
        self._watch = ShiftWatch()
        return True

    def rate(self, ages_in_flight: Iterable[float] = (), in_flight: int = 1) -> float | None:
        """Return items per second of one worker; None before anything was finished.

        ``ages_in_flight`` are those of the ``in_flight`` tasks that run now, or their sum. Tasks that run longer than
        those that have finished say that the finished ones were the quick ones; others, where times hardly vary, are
        nearly as much of a task done as their age says.

        >>> estimate = RateEstimate()
        >>> estimate.observe(1.0, items=1, seconds=0.5)
        False
        >>> estimate.rate(), estimate.rate(ages_in_flight=[1.5])
        (2.0, 0.5)
        """
        age = sum(ages_in_flight)
        if self.items <= 0 or self.seconds + age <= 0:
            return None
        done_in_flight = 0.0
        if 0 < age <= in_flight * self.service_seconds * _NOT_LONGER:
            done_in_flight = (1 - min(1.0, self._variation)) * age / self.service_seconds * self.items / self.tasks
        return (self.items + done_in_flight) / (self.seconds + age)

    @property
    def service_seconds(self) -> float:
        """How long one task takes on average; 0 before anything was finished."""
        return self.seconds / self.tasks if self.tasks else 0.0

    @property
    def relative_error(self) -> float:
        """How far off the rate may be (one standard error), as a share of it."""
        return sqrt(self._variance) / sqrt(self.tasks) if self.tasks >= _FEW_TASKS else 1.0

    @property
    def _variance(self) -> float:
        """The variance of the time for one item, in units of its mean."""
        mean = self.seconds / self.items if self.items > 0 else 0.0
        return max(0.0, self._squares / self.tasks / (mean * mean) - 1) if mean > 0 else 1.0

    @property
    def _variation(self) -> float:
        """The same for somebody who has an opinion before the second task has shown any."""
        return (_USUAL_VARIANCE + max(0.0, self.tasks - 1) * self._variance) / max(1.0, self.tasks)

    def _forget(self, now: float) -> None:
        half_life = max(_MIN_HALF_LIFE_S, _HALF_LIFE_IN_SERVICES * self.service_seconds)
        weight = 0.5 ** (max(0.0, now - self._last) / half_life)
        self.items *= weight
        self.seconds *= weight
        self.tasks *= weight
        self._squares *= weight
        self._last = now


class Seen(NamedTuple):
    """Sums over some tasks."""

    items: float = 0.0
    seconds: float = 0.0
    tasks: float = 0.0
    squares: float = 0.0
    logs: float = 0.0

    def plus(self, other: Seen) -> Seen:
        """Return both together."""
        items, seconds, tasks, squares, logs = other
        return Seen(
            self.items + items, self.seconds + seconds, self.tasks + tasks, self.squares + squares, self.logs + logs
        )


@dataclass
class ShiftWatch:
    """Watches whether service times leave where they were: Page-Hinkley on their logarithm, in its own spread.

    Of tasks that were begun together the short ones end first, which looks as if times grew. So as many tasks as run at
    a time are looked at together, short and long ones.
    """

    mean: float = 0.0
    squares: float = 0.0
    count: int = 0
    rise: Drift = field(default_factory=lambda: Drift())
    fall: Drift = field(default_factory=lambda: Drift())
    _block: Seen = field(default_factory=Seen)

    def observe(self, now: float, items: float, seconds: float, in_flight: int) -> bool:
        """Take one task in; True if times have shifted."""
        per_item = seconds / max(items, 1e-12)
        value = log(max(per_item, 1e-9))
        task = Seen(items, seconds, 1, per_item * per_item, value)
        self._block = self._block.plus(task)
        for drift in (self.rise, self.fall):
            if now - seconds >= drift.since:
                drift.begun_since = drift.begun_since.plus(task)
        shifted = False
        if self._block.tasks >= in_flight:
            block, self._block = self._block, Seen()
            shifted = self.count >= _SETTLED_AFTER and self._look_at(now, block)
        self.count += 1
        excess = value - self.mean
        self.mean += excess / self.count
        self.squares += excess * (value - self.mean)
        return shifted

    @property
    def stronger(self) -> Drift:
        """The direction in which times go."""
        return max(self.rise, self.fall, key=lambda drift: drift.height)

    def _look_at(self, now: float, block: Seen) -> bool:
        spread = max(_LEAST_SPREAD, sqrt(self.squares / self.count))
        # More than a few tasks together are no better witnesses: what they have in common may be their beginning.
        certainty = sqrt(min(block.tasks, _FEW_WITNESSES))
        most = _LARGEST_EXCESS * certainty
        excess = max(-most, min(most, (block.logs / block.tasks - self.mean) / spread * certainty))
        return any([self.rise.observe(now, excess, block), self.fall.observe(now, -excess, block)])


@dataclass
class Drift:
    """Excess in one direction, summed up, and what was seen since it began."""

    height: float = 0.0
    seen: Seen = field(default_factory=Seen)
    # When it began, and of what was seen since then that which was also begun since then: the rest is of both times.
    since: float = inf
    begun_since: Seen = field(default_factory=Seen)

    def observe(self, now: float, excess: float, block: Seen) -> bool:
        """Take some tasks in; True if the sum says that this is no chance."""
        self.height = max(0.0, self.height + excess - _SHIFT_TOLERANCE)
        if self.height < _NOISE:
            self.seen, self.begun_since, self.since = Seen(), Seen(), inf
        else:
            self.seen, self.since = self.seen.plus(block), min(now, self.since)
        return self.height > _SHIFT_THRESHOLD


@dataclass
class PoolEstimate:
    """Everything known about one pool."""

    rate: RateEstimate = field(default_factory=RateEstimate)
    outputs: SizeEstimate = field(default_factory=SizeEstimate)
    # Memory of its workers, as seen after each batch.
    resident: SizeEstimate = field(default_factory=SizeEstimate)
    items_in: int = 0
    items_out: int = 0
    busy_seconds: float = 0.0
    start_up_seconds: float | None = None
    _expected_fan_out: float | None = None
    _expected_output_bytes: float | None = None

    def expect(
        self,
        items: int,
        seconds: float | None,
        fan_out: float | None,
        output_bytes: float | None = None,
        start_up_seconds: float | None = None,
    ) -> None:
        """Take in what an earlier run has shown: as much as one batch of so many items."""
        self._expected_fan_out = fan_out
        self._expected_output_bytes = output_bytes
        self.start_up_seconds = start_up_seconds
        if seconds is not None and seconds > 0:
            self.rate = RateEstimate(items, items * seconds, 1.0, seconds * seconds)

    def finished(self, now: float, items: int, outputs: int, seconds: float, in_flight: int = 1) -> bool:
        """Take one finished batch in; True if the pool's speed has shifted."""
        self.items_in += items
        self.items_out += outputs
        self.busy_seconds += seconds
        return self.rate.observe(now, items, seconds, in_flight)

    def started(self, seconds: float) -> None:
        """Take in how long a worker took from its start until it was ready."""
        self.start_up_seconds = seconds if self.start_up_seconds is None else 0.5 * (self.start_up_seconds + seconds)

    @property
    def fan_out(self) -> float:
        """How many items come out for one that goes in; 1 before anything was seen."""
        if self.items_in:
            return self.items_out / self.items_in
        return 1.0 if self._expected_fan_out is None else self._expected_fan_out

    @property
    def knows_fan_out(self) -> bool:
        """Whether the fan-out is more than a guess."""
        return self.items_in > 0 or self._expected_fan_out is not None

    @property
    def output_bytes_per_item(self) -> float:
        """How many bytes come out for one item that goes in."""
        if self.items_in:
            return self.outputs.total / self.items_in
        return self._expected_output_bytes or 0.0
