"""Finding the rows that kill a worker: exactly those, and no neighbour."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.schedule.actions import Selection
from penstock.schedule.recovery import Recovery

modest = settings(max_examples=100, deadline=None, derandomize=True)


def search(recovery: Recovery, bad: set[int], *, for_sure: bool = False) -> int:
    """Answer every probe truthfully; return how many there were."""
    probes = 0
    while (probe := recovery.next_probe()) is not None and not recovery.is_hopeless:
        probes += 1
        rows = set(range(probe.start, probe.stop or 0)) - set(probe.without)
        if rows & bad:
            recovery.failed("died", for_sure=for_sure)
        else:
            recovery.passed()
    return probes


@modest
@given(st.integers(2, 200), st.sets(st.integers(0, 199), max_size=5), st.integers(1, 4))
def test_it_finds_exactly_the_bad_rows(rows: int, bad: set[int], max_attempts: int) -> None:
    guilty = {row for row in bad if row < rows}
    recovery = Recovery(0, rows, max_attempts)
    probes = search(recovery, guilty)
    assert set(recovery.bad) == guilty
    assert recovery.verdict() == (Selection(0, without=tuple(sorted(guilty))),)
    assert probes <= 2 + len(guilty) * (2 * rows.bit_length() + max_attempts)


@modest
@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.data())
def test_whole_tasks_are_told_apart_where_rows_are_not(sizes: list[int], data: st.DataObject) -> None:
    refused = data.draw(st.integers(0, len(sizes) - 1))
    ends = list(accumulate(sizes))
    rows = set(range(ends[refused] - sizes[refused], ends[refused]))
    recovery = Recovery(0, ends[-1], 3, cuts=tuple(ends))
    search(recovery, rows, for_sure=True)
    assert set(recovery.bad) == rows


def test_a_row_is_condemned_only_after_failing_alone_often_enough() -> None:
    recovery = Recovery(0, 2, max_attempts=3)
    for _ in range(2):
        recovery.failed("chance")
    recovery.passed()
    recovery.passed()
    assert recovery.next_probe() is None
    assert recovery.bad == []


def test_a_second_round_at_a_step_leaves_out_what_the_first_has_found() -> None:
    recovery = Recovery(1, 8, 1, before=(Selection(0, without=(5,)),), known=(2,))
    probe = recovery.next_probe()
    assert probe == Selection(1, 0, 4, (2,))
    search(recovery, {6})
    assert recovery.verdict() == (Selection(0, without=(5,)), Selection(1, without=(2, 6)))


def test_where_everything_fails_it_gives_up_before_it_has_tried_every_row() -> None:
    recovery = Recovery(0, 10_000, max_attempts=3)
    probes = search(recovery, set(range(10_000)))
    assert recovery.is_hopeless
    assert probes < 60
