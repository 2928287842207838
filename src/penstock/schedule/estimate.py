"""Estimate the speed, fan-out, output sizes and start-up time of each pool from measurements.

The rate is the total-time-on-test estimate: items done over busy time, where busy time includes the age of running
tasks. A mean over finished tasks alone is far too fast at the start, when only short tasks have finished.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import NamedTuple

from penstock.schedule.sizes import SizeEstimate

_MIN_HALF_LIFE_S = 15.0
_HALF_LIFE_IN_SERVICES = 20.0
# The relative error is known from this many tasks on.
_MIN_TASKS_FOR_ERROR = 2
# The variance of task times, relative to the squared mean, that is assumed before the second task.
_PRIOR_VARIANCE = 0.25
# A running task counts as no slower than the finished ones up to this many mean task times.
_USUAL_AGE_IN_SERVICES = 1.1
# A shift is detected when the sum of the excess over the mean, in standard deviations less the tolerance, exceeds the
# threshold.
_SHIFT_TOLERANCE = 0.5
_SHIFT_THRESHOLD = 12.0
# Below this sum there is only noise, and the tasks seen so far belong to the time before a shift.
_NOISE_THRESHOLD = 3.0
_MAX_EXCESS = 3.0
# A block of more tasks than this counts as this many: tasks begun together are not independent.
_MAX_INDEPENDENT_TASKS = 8
_MIN_SPREAD = 0.1
# Shifts are looked for after this many tasks.
_MIN_TASKS_FOR_SHIFT = 8


@dataclass
class RateEstimate:
    """The items per second of one worker of a pool; older measurements have less weight."""

    items: float = 0.0
    seconds: float = 0.0
    tasks: float = 0.0
    _squares: float = 0.0
    _last: float = 0.0
    # Tasks begun before the last shift are ignored, even if they end after it.
    _shifted_at: float = -inf
    _watch: ShiftWatch = field(default_factory=lambda: ShiftWatch())

    def observe(self, now: float, items: float, seconds: float, in_flight: int = 1) -> bool:
        """Add one finished task; return True if it shows a lasting change of the pool's speed.

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
        # Only measurements since the shift count from now on.
        drift = self._watch.stronger
        self.items, self.seconds, self.tasks, self._squares, _ = (
            drift.begun_since if drift.begun_since.tasks else drift.seen
        )
        self._shifted_at = drift.since
        self._watch = ShiftWatch()
        return True

    def rate(self, ages_in_flight: Iterable[float] = (), in_flight: int = 1) -> float | None:
        """Return items per second of one worker; None before anything was finished.

        ``ages_in_flight`` are the ages of the ``in_flight`` running tasks, or their sum. If running tasks are older
        than the mean of the finished ones, the finished ones were the short ones. Otherwise, where times vary little,
        the age of a running task tells how much of it is done.

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
        if 0 < age <= in_flight * self.service_seconds * _USUAL_AGE_IN_SERVICES:
            done_in_flight = (1 - min(1.0, self._variation)) * age / self.service_seconds * self.items / self.tasks
        return (self.items + done_in_flight) / (self.seconds + age)

    @property
    def service_seconds(self) -> float:
        """The mean time of one task; 0 before a task has finished."""
        return self.seconds / self.tasks if self.tasks else 0.0

    @property
    def relative_error(self) -> float:
        """One standard error of the rate, relative to the rate."""
        return sqrt(self._variance) / sqrt(self.tasks) if self.tasks >= _MIN_TASKS_FOR_ERROR else 1.0

    @property
    def _variance(self) -> float:
        """The variance of the time for one item, in units of its mean."""
        mean = self.seconds / self.items if self.items > 0 else 0.0
        return max(0.0, self._squares / self.tasks / (mean * mean) - 1) if mean > 0 else 1.0

    @property
    def _variation(self) -> float:
        """The variance with a prior, so that it is defined before the second task."""
        return (_PRIOR_VARIANCE + max(0.0, self.tasks - 1) * self._variance) / max(1.0, self.tasks)

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
        """Return the sum of both."""
        items, seconds, tasks, squares, logs = other
        return Seen(
            self.items + items, self.seconds + seconds, self.tasks + tasks, self.squares + squares, self.logs + logs
        )


@dataclass
class ShiftWatch:
    """Detect a lasting change of task times: a Page-Hinkley test on their logarithm, in standard deviations.

    Of tasks begun together the short ones end first, which looks as if times increased. So tasks are tested in blocks
    of as many as run at the same time.
    """

    mean: float = 0.0
    squares: float = 0.0
    count: int = 0
    rise: Drift = field(default_factory=lambda: Drift())
    fall: Drift = field(default_factory=lambda: Drift())
    _block: Seen = field(default_factory=Seen)

    def observe(self, now: float, items: float, seconds: float, in_flight: int) -> bool:
        """Add one task; return True if times have shifted."""
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
            shifted = self.count >= _MIN_TASKS_FOR_SHIFT and self._test(now, block)
        self.count += 1
        excess = value - self.mean
        self.mean += excess / self.count
        self.squares += excess * (value - self.mean)
        return shifted

    @property
    def stronger(self) -> Drift:
        """The direction with the larger sum of excess."""
        return max(self.rise, self.fall, key=lambda drift: drift.height)

    def _test(self, now: float, block: Seen) -> bool:
        spread = max(_MIN_SPREAD, sqrt(self.squares / self.count))
        certainty = sqrt(min(block.tasks, _MAX_INDEPENDENT_TASKS))
        most = _MAX_EXCESS * certainty
        excess = max(-most, min(most, (block.logs / block.tasks - self.mean) / spread * certainty))
        return any([self.rise.observe(now, excess, block), self.fall.observe(now, -excess, block)])


@dataclass
class Drift:
    """The sum of excess in one direction, and the tasks seen since it began."""

    height: float = 0.0
    seen: Seen = field(default_factory=Seen)
    # When it began, and the tasks that were both begun and finished since then.
    since: float = inf
    begun_since: Seen = field(default_factory=Seen)

    def observe(self, now: float, excess: float, block: Seen) -> bool:
        """Add a block of tasks; return True if the sum exceeds the threshold."""
        self.height = max(0.0, self.height + excess - _SHIFT_TOLERANCE)
        if self.height < _NOISE_THRESHOLD:
            self.seen, self.begun_since, self.since = Seen(), Seen(), inf
        else:
            self.seen, self.since = self.seen.plus(block), min(now, self.since)
        return self.height > _SHIFT_THRESHOLD


@dataclass
class PoolEstimate:
    """All estimates for one pool."""

    rate: RateEstimate = field(default_factory=RateEstimate)
    outputs: SizeEstimate = field(default_factory=SizeEstimate)
    # Resident memory of its workers, measured after each batch.
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
        """Start from the measurements of an earlier run, with the weight of one batch of ``items``."""
        self._expected_fan_out = fan_out
        self._expected_output_bytes = output_bytes
        self.start_up_seconds = start_up_seconds
        if seconds is not None and seconds > 0:
            self.rate = RateEstimate(items, items * seconds, 1.0, seconds * seconds)

    def finished(self, now: float, items: int, outputs: int, seconds: float, in_flight: int = 1) -> bool:
        """Add one finished batch; return True if the speed of the pool has shifted."""
        self.items_in += items
        self.items_out += outputs
        self.busy_seconds += seconds
        return self.rate.observe(now, items, seconds, in_flight)

    def started(self, seconds: float) -> None:
        """Add the time from the start of a worker until it was ready."""
        self.start_up_seconds = seconds if self.start_up_seconds is None else 0.5 * (self.start_up_seconds + seconds)

    @property
    def fan_out(self) -> float:
        """Output items per input item; 1 before anything was measured."""
        if self.items_in:
            return self.items_out / self.items_in
        return 1.0 if self._expected_fan_out is None else self._expected_fan_out

    @property
    def knows_fan_out(self) -> bool:
        """Whether the fan-out was measured, in this run or an earlier one."""
        return self.items_in > 0 or self._expected_fan_out is not None

    @property
    def output_bytes_per_item(self) -> float:
        """Output bytes per input item."""
        if self.items_in:
            return self.outputs.total / self.items_in
        return self._expected_output_bytes or 0.0
