"""How simulated stages behave: how long they take, what they give, how they fail."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Order = tuple[int, ...]
# Seconds for one item: may depend on its position and on the time, and on chance.
ServiceLaw = Callable[[Order, float, random.Random], float]


@dataclass(frozen=True)
class Law:
    """How one pool behaves."""

    service: ServiceLaw
    # How many items come out for one that goes in, how large each is, and how many rows it has.
    fan_out: Callable[[Order], int] = lambda order: 1
    output_bytes: Callable[[Order], int] = lambda order: 0
    rows: int = 1
    start_up: float = 0.0
    stop: float = 0.0
    # Rows that kill a worker, by the position of their item; and items that the stage refuses.
    poison: Callable[[Order], tuple[int, ...]] = lambda order: ()
    refuses: Callable[[Order], bool] = lambda order: False
    # How often a worker dies for no reason, or never comes back.
    death_probability: float = 0.0
    hang_probability: float = 0.0
    # Whether the so-many-th worker that is started cannot be set up.
    setup_fails: Callable[[int], bool] = lambda attempt: False
    # Whether the so-many-th worker that is started never gets its place, or is never ready.
    place_is_taken: Callable[[int], bool] = lambda attempt: False
    setup_hangs: Callable[[int], bool] = lambda attempt: False
    # How often a worker falls silent when it begins a batch: nothing of what it does is heard of any more.
    silence_probability: float = 0.0
    # How often the report that a batch has ended is lost, and how often a worker's end is.
    lost_report_probability: float = 0.0
    lost_end_probability: float = 0.0
    # Whether a worker that is killed still gets its outputs out before it ends.
    late_results: bool = False


def constant(seconds: float) -> ServiceLaw:
    """Every item takes the same time."""
    return lambda order, now, chance: seconds


def exponential(mean: float) -> ServiceLaw:
    """Memoryless service times."""
    return lambda order, now, chance: chance.expovariate(1 / mean)


def heavy_tailed(mean: float, shape: float = 1.5) -> ServiceLaw:
    """Pareto service times: most are short, a few very long."""
    scale = mean * (shape - 1) / shape
    return lambda order, now, chance: scale * chance.paretovariate(shape)


def shifting(before: float, after: float, at: float) -> ServiceLaw:
    """Every item takes the same time until a moment, and another one from then on."""
    return lambda order, now, chance: before if now < at else after
