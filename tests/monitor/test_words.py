"""The description of a run in words."""

import math

import pytest
from captioning_run import GB, captioning, pool, run

from penstock.core.snapshot import PoolSnapshot, RunSnapshot
from penstock.monitor.words import amount, duration, headline, log_line, percent, rate


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "unknown"),
        (math.inf, "unknown"),
        (math.nan, "unknown"),
        (0.0, "under a second"),
        (-3.0, "under a second"),
        (1.0, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (599.6, "10 min"),
        (3_599, "1 h 00 min"),
        (7_500, "2 h 05 min"),
        (172_799, "2 d 00 h"),
    ],
)
def test_a_duration_is_rounded_to_a_sensible_unit(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (1e-9, "0"), (0.05, "0.05"), (0.999, "1.0"), (9.96, "10"), (999, "999"), (999.7, "1.0k"),
     (9_960, "10k"), (999_600, "1.0M"), (3e12, "3000G"), (math.inf, "?")],
)  # fmt: skip
def test_an_amount_has_two_or_three_significant_digits(number: float, shown: str) -> None:
    assert amount(number) == shown
    assert rate(number) == f"{shown}/s"


def test_a_percentage_is_clipped_to_the_range_from_0_to_100() -> None:
    assert [percent(share) for share in (-0.1, 0.004, 0.97, 1.3)] == ["0 %", "0 %", "97 %", "100 %"]


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (run(pool()), "bound by 'caption' on GPUs, 97 % of what this machine can do"),
        (run(pool(), efficiency=-1.0), "bound by 'caption' on GPUs"),
        (run(pool(), efficiency=-1.0, bound_by=""), "bound by 'caption'"),
        (run(pool("read"), bottleneck="gone"), "bound by 'gone' on GPUs, 97 % of what this machine can do"),
        (run(pool(ready=2, busy=0.5, queue=0)), "bound by 'caption' on GPUs, 97 % of what this machine can do"),
        (run(pool(busy=0.0, queue=0)), "'caption' is idle: nothing comes in"),
        (run(pool("read"), pool(ready=0)), "waiting for the workers of 'caption' to start"),
        (run(pool(busy=0.0), held_bytes=3_900_000_000),
         "'caption' waits for memory: 3.9 GB of the 4.0 GB budget in flight"),
        (run(bottleneck=None), "starting the workers"),
        (run(pool(ready=0, done=0), bottleneck=None), "starting the workers"),
        (run(pool("read"), pool(ready=0, done=0), bottleneck=None), "waiting for the workers of 'caption' to start"),
        (run(pool("read"), pool(done=0), bottleneck=None), "measuring the stages"),
        (run(pool("read"), pool(), bottleneck=None), "no stage holds the others back"),
        (run(pool(remaining=0.0, queue=0, busy=0.0)), "finishing"),
    ],
)  # fmt: skip
def test_the_headline_says_what_limits_the_run(snapshot: RunSnapshot, words: str) -> None:
    assert headline(snapshot) == words


def test_a_log_line_contains_progress_bottleneck_memory_failures_and_eta() -> None:
    assert log_line("captions", captioning(failed=3)) == (
        "captions, 5 min 10 s: 8,400 of about 39,400 done, 4.0/s; "
        "bound by 'caption' on GPUs, 97 % of what this machine can do; "
        "1.6 GB of the 4.0 GB budget in flight; 3 failed; ETA 2 h 05 min"
    )


def test_a_log_line_leaves_out_unknown_values() -> None:
    nothing_yet = pool(done=0, items_per_second=0.0, eta_seconds=None)
    line = log_line("captions", run(nothing_yet, bottleneck=None, eta_seconds=None, budget_bytes=0, held_bytes=0))
    assert line == "captions, 5 min 10 s: 0 done, 0/s; measuring the stages; 0 B in flight; ETA unknown"
    assert log_line("p", run()).startswith("p, 5 min 10 s: 0 done; ")


def test_a_pool_without_memory_budget_never_waits_for_memory() -> None:
    waiting: PoolSnapshot = pool(busy=0.0)
    assert headline(run(waiting, budget_bytes=0, held_bytes=9 * GB)).startswith("bound by")
