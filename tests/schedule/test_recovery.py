"""The search finds exactly the rows that kill a worker."""

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
def test_the_search_finds_exactly_the_bad_rows(rows: int, bad: set[int], max_attempts: int) -> None:
    guilty = {row for row in bad if row < rows}
    recovery = Recovery(0, rows, max_attempts)
    probes = search(recovery, guilty)
    assert set(recovery.bad) == guilty
    assert recovery.verdict() == (Selection(0, without=tuple(sorted(guilty)), reasons=("died",) * len(guilty)),)
    # Without a bad row, the search follows the half that must have one down to a single row.
    assert probes <= 1 + rows.bit_length() + len(guilty) * (2 * rows.bit_length() + max_attempts)


@modest
@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.data())
def test_the_search_divides_between_tasks_where_rows_cannot_be_divided(sizes: list[int], data: st.DataObject) -> None:
    refused = data.draw(st.integers(0, len(sizes) - 1))
    ends = list(accumulate(sizes))
    rows = set(range(ends[refused] - sizes[refused], ends[refused]))
    recovery = Recovery(0, ends[-1], 3, cuts=tuple(ends))
    search(recovery, rows, for_sure=True)
    assert set(recovery.bad) == rows


def test_a_row_is_given_up_only_after_failing_alone_often_enough() -> None:
    recovery = Recovery(0, 2, max_attempts=3)
    for _ in range(2):
        recovery.failed("chance")
    recovery.passed()
    recovery.passed()
    assert recovery.next_probe() is None
    assert recovery.bad == {}


def test_a_second_search_at_a_step_leaves_out_the_rows_of_the_first() -> None:
    before = Selection(0, without=(5,), reasons=("exit",))
    recovery = Recovery(1, 8, 1, before=(before,), known={2: "hung"})
    probe = recovery.next_probe()
    assert probe == Selection(1, 0, 4, (2,), ("hung",))
    search(recovery, {6})
    assert recovery.verdict() == (before, Selection(1, without=(2, 6), reasons=("hung", "died")))


def test_the_search_gives_up_early_when_every_row_fails() -> None:
    recovery = Recovery(0, 10_000, max_attempts=3)
    probes = search(recovery, set(range(10_000)))
    assert recovery.is_hopeless
    assert probes < 60
    recovery.give_up()
    assert set(recovery.bad) == set(range(10_000))
    assert "not tried alone" in recovery.bad[5000]


def test_bad_rows_at_the_beginning_do_not_end_the_search() -> None:
    recovery = Recovery(0, 1000, max_attempts=1)
    search(recovery, set(range(40)))
    assert not recovery.is_hopeless
    assert set(recovery.bad) == set(range(40))


@modest
@given(st.integers(2, 5000), st.data())
def test_a_hanging_row_is_found_with_at_most_one_hang_per_bisection_step(rows: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, rows - 1))
    recovery = Recovery(0, rows, max_attempts=1)
    hangs = 0
    while (probe := recovery.next_probe()) is not None:
        if probe.start <= bad < (probe.stop or 0):
            hangs += 1
            recovery.failed("hung")
        else:
            recovery.passed()
    assert set(recovery.bad) == {bad}
    assert hangs <= (rows - 1).bit_length()


def test_a_kill_from_outside_says_nothing_about_the_other_half() -> None:
    recovery = Recovery(0, 8, max_attempts=1, is_certain=False)
    recovery.passed()
    probe = recovery.next_probe()
    assert (probe.start, probe.stop) == (4, 8) if probe else False
