"""Estimates of a pool are right from the first task on, and detect changes quickly without false alarms."""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Callable
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.schedule.estimate import PoolEstimate, RateEstimate

modest = settings(max_examples=60, deadline=None, derandomize=True)


def watch_workers(times: list[list[float]], until: float) -> tuple[RateEstimate, float, int]:
    """Run workers with these service times up to a moment; return the estimate, and the ages and number in flight."""
    estimate = RateEstimate()
    finished, age = [], 0.0
    for worker in times:
        clock = 0.0
        for seconds in worker:
            if clock + seconds > until:
                break
            clock += seconds
            finished.append((clock, seconds))
        age += until - clock
    for at, seconds in sorted(finished):
        estimate.observe(at, 1, seconds, in_flight=len(times))
    return estimate, age, len(times)


@modest
@given(st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 2.0]))
def test_the_rate_is_usable_after_one_service_time(seed: int, until: float) -> None:
    """Exponential times are the hard case: short tasks finish first. Averaged over many workers, as at a real start."""
    chance = random.Random(seed)
    times = [[chance.expovariate(1.0) for _ in range(50)] for _ in range(200)]
    estimate, age, running = watch_workers(times, until)
    rate = estimate.rate([age], running)
    assert rate == pytest.approx(1.0, rel=0.3)
    finished_only = estimate.rate()
    assert finished_only is not None
    if until <= 1.0:
        assert finished_only > 1.8  # the mean over finished tasks is far too fast


@modest
@given(st.integers(1, 50), st.floats(1.0, 6.0), st.floats(0.01, 10.0))
def test_the_rate_of_constant_task_times_is_exact_at_any_time(workers: int, until: float, seconds: float) -> None:
    """Workers that began together are all in the middle of a task: that must not lower the rate."""
    estimate, age, running = watch_workers([[seconds] * 20] * workers, until * seconds)
    rate = estimate.rate([age], running)
    assert rate is not None
    assert rate * seconds == pytest.approx(1.0, rel=0.15 if until < 2 else 0.1)


def test_a_task_that_never_ends_lowers_the_rate() -> None:
    estimate = RateEstimate()
    for i in range(10):
        estimate.observe(i, 1, 1.0)
    rates = [estimate.rate([age], 1) or 0.0 for age in (0.5, 10.0, 100.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1


@pytest.mark.parametrize("factor", [5.0, 0.2])
@pytest.mark.parametrize("seed", range(5))
def test_a_shift_is_detected_within_a_few_tasks_and_changes_the_rate(factor: float, seed: int) -> None:
    chance = random.Random(seed)
    estimate = RateEstimate()
    now = 0.0
    for _ in range(200):
        now += 0.1
        assert not estimate.observe(now, 1, chance.uniform(0.8, 1.2))
    needed = 1
    while not estimate.observe(now, 1, factor * chance.uniform(0.8, 1.2)):
        now += 0.1
        needed += 1
    assert needed <= 8
    rate = estimate.rate()
    assert rate is not None
    assert rate * factor == pytest.approx(1.0, rel=0.25)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("law", ["exponential", "pareto", "lognormal"])
def test_heavy_tails_are_not_detected_as_a_shift(law: str, seed: int) -> None:
    chance = random.Random(seed)
    laws: dict[str, Callable[[], float]] = {
        "exponential": lambda: chance.expovariate(1.0),
        "pareto": lambda: chance.paretovariate(1.5),
        "lognormal": lambda: chance.lognormvariate(0, 1.5),
    }
    draw = laws[law]
    estimate = RateEstimate()
    alarms = sum(estimate.observe(0.05 * i, 1, draw()) for i in range(2_000))
    assert alarms <= 2


@pytest.mark.parametrize("workers", [10, 100, 1000])
def test_many_workers_that_begin_together_are_not_detected_as_a_shift(workers: int) -> None:
    """Short tasks end first, which looks like increasing times if tasks are tested one by one."""
    chance = random.Random(workers)
    estimate = RateEstimate()
    ends = sorted((chance.expovariate(1.0), worker) for worker in range(workers))
    began = dict.fromkeys(range(workers), 0.0)
    alarms = 0
    for _ in range(10 * workers):
        now, worker = ends.pop(0)
        alarms += estimate.observe(now, 1, now - began[worker], in_flight=workers)
        began[worker] = now
        insort(ends, (now + chance.expovariate(1.0), worker))
    assert alarms == 0


def test_old_measurements_lose_weight() -> None:
    estimate = RateEstimate()
    for i in range(20):
        estimate.observe(i, 1, 1.0)
    for i in range(6):  # too few to detect a shift, but long after the others
        estimate.observe(300.0 + i, 1, 1.5)
    rate = estimate.rate()
    assert rate is not None
    assert rate == pytest.approx(1 / 1.5, rel=0.05)


def test_the_relative_error_shrinks_with_more_tasks() -> None:
    chance = random.Random(1)
    estimate = RateEstimate()
    assert estimate.relative_error == 1.0
    errors = []
    for i in range(400):
        estimate.observe(0.01 * i, 1, chance.expovariate(1.0))
        if i in (10, 100, 399):
            errors.append(estimate.relative_error)
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1


def test_fan_out_and_sizes_come_from_finished_batches() -> None:
    estimate = PoolEstimate()
    assert (estimate.fan_out, estimate.output_bytes_per_item) == (1.0, 0.0)
    for size in (10, 30):
        estimate.outputs.observe(size)
    estimate.finished(1.0, items=4, outputs=2, seconds=1.0)
    assert estimate.fan_out == 0.5
    assert estimate.output_bytes_per_item == 10.0
    assert (estimate.outputs.mean, estimate.outputs.largest) == (20.0, 30)
    assert estimate.outputs.quantile(0.95) == 30


def test_the_start_up_time_is_measured() -> None:
    estimate = PoolEstimate()
    assert estimate.start_up_seconds is None
    estimate.started(4.0)
    estimate.started(2.0)
    assert estimate.start_up_seconds == mean([4.0, 2.0])
