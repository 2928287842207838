"""Models of simulated stages: service time, outputs, failures."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Order = tuple[int, ...]
# Seconds for one item, from its position, the time, and a random generator.
ServiceLaw = Callable[[Order, float, random.Random], float]


@dataclass(frozen=True)
class Law:
    """The behaviour of one pool."""

    service: ServiceLaw
    # Output items per input item, their size in bytes, and their number of rows.
    fan_out: Callable[[Order], int] = lambda order: 1
    output_bytes: Callable[[Order], int] = lambda order: 0
    rows: int = 1
    start_up: float = 0.0
    stop: float = 0.0
    # Rows that kill a worker, by the position of their item; and items that the stage fails on.
    poison: Callable[[Order], tuple[int, ...]] = lambda order: ()
    refuses: Callable[[Order], bool] = lambda order: False
    # The probability per batch that a worker dies without a cause, or hangs.
    death_probability: float = 0.0
    hang_probability: float = 0.0
    # Whether the setup of the nth started worker fails.
    setup_fails: Callable[[int], bool] = lambda attempt: False
    # Whether the nth started worker never gets its resources, or is never ready.
    place_is_taken: Callable[[int], bool] = lambda attempt: False
    setup_hangs: Callable[[int], bool] = lambda attempt: False
    # The probability per batch that a worker sends no messages from then on.
    silence_probability: float = 0.0
    # The probability that the report of a finished batch is lost, and that the end of a worker is not reported.
    lost_report_probability: float = 0.0
    lost_end_probability: float = 0.0
    # Whether a worker that is killed still emits its outputs before it ends.
    late_results: bool = False


def constant(seconds: float) -> ServiceLaw:
    """Return a law by which every item takes the same time."""
    return lambda order, now, chance: seconds


def exponential(mean: float) -> ServiceLaw:
    """Return a law with exponentially distributed service times."""
    return lambda order, now, chance: chance.expovariate(1 / mean)


def heavy_tailed(mean: float, shape: float = 1.5) -> ServiceLaw:
    """Return a law with Pareto distributed service times: most are short, a few very long."""
    scale = mean * (shape - 1) / shape
    return lambda order, now, chance: scale * chance.paretovariate(shape)


def shifting(before: float, after: float, at: float) -> ServiceLaw:
    """Return a law by which every item takes ``before`` seconds until the time ``at``, then ``after`` seconds."""
    return lambda order, now, chance: before if now < at else after
