"""The guarantees of the scheduler, on random pipelines in virtual time, checked from the recorded log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_runs import RunCase, calm_runs, expected_results, hits, poison, troubled_runs, unresponsive_runs
from run_checker import (
    accidents_of,
    batches,
    check_no_stop_in_mid_task,
    check_one_batch_per_item,
    check_resources,
    check_workers_are_used,
    dead_rows,
)

from penstock.core.cluster import Node
from penstock.schedule.actions import RunBatch, StartWorker
from penstock.schedule.events import Output, Tick
from penstock.schedule.pack import packs
from penstock.schedule.scheduler import Scheduler

modest = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@modest
@given(calm_runs())
def test_a_run_without_failures_emits_every_result_once_within_its_resources(run: RunCase) -> None:
    trace, scheduler = run.run()
    assert scheduler.fatal is None
    assert set(trace.results) == expected_results(run)[0]
    assert not trace.dead
    check_resources(trace, run.specs(), run.cluster)
    check_no_stop_in_mid_task(trace)
    check_one_batch_per_item(trace)
    check_accounts_are_closed(run, trace.peak_bytes, trace.left_over, scheduler)


def check_accounts_are_closed(run: RunCase, peak: int, left_over: int, scheduler: Scheduler) -> None:
    """Property 2, and that nothing is held after the run."""
    assert peak <= run.budget
    assert scheduler.credits.peak <= run.budget
    assert scheduler.credits.held == 0
    assert scheduler.credits.forced == 0
    assert left_over == 0
    assert not scheduler.state.items
    assert all(pool.items == pool.running == pool.staffed == 0 for pool in scheduler.pools)
    assert scheduler.state.busy == scheduler.state.in_transition == 0


@modest
@given(troubled_runs())
def test_every_item_is_accounted_for_under_all_failures(run: RunCase) -> None:
    trace, scheduler = run.run()
    check_resources(trace, run.specs(), run.cluster)
    check_no_stop_in_mid_task(trace, scheduler.fatal)
    if scheduler.fatal is not None:  # three workers of a pool in a row were killed before they were ready
        assert "cannot be set up" in scheduler.fatal
        assert run.kills > 0
        return
    gone = [item for item, rows in dead_rows(trace, run.rows).items() if len(rows) == run.rows]
    must, may = expected_results(run, gone)
    assert must <= set(trace.results) <= may
    check_one_batch_per_item(trace)
    check_accounts_are_closed(run, trace.peak_bytes, trace.left_over, scheduler)
    check_only_the_guilty_died(run, trace)


@modest
@given(unresponsive_runs())
def test_every_run_ends_although_workers_or_nodes_do_not_answer(run: RunCase) -> None:
    """Property 13: every wait has a deadline, so that virtual time alone brings every run to its end."""
    trace, scheduler = run.run()
    assert scheduler.finished
    attempts = sum(isinstance(entry, StartWorker | RunBatch) for _, entry in trace.log)
    settings = run.settings
    waits = settings.start_timeout_s + settings.stall_timeout_s + settings.answer_timeout_s + settings.stop_timeout_s
    assert trace.finished_at < 2 * waits * (attempts + 1)
    check_resources(trace, run.specs(), run.cluster)
    check_no_stop_in_mid_task(trace, scheduler.fatal)
    check_one_batch_per_item(trace)
    gone = [item for item, rows in dead_rows(trace, run.rows).items() if len(rows) == run.rows]
    must, may = expected_results(run, gone)
    assert set(trace.results) <= may
    if scheduler.fatal is None:
        assert must <= set(trace.results)
        check_accounts_are_closed(run, trace.peak_bytes, trace.left_over, scheduler)
        check_only_the_guilty_died(run, trace)
    else:
        assert any(
            words in scheduler.fatal for words in ("cannot be set up", "nothing has moved", "none of them answered")
        )


def check_only_the_guilty_died(run: RunCase, trace: object) -> None:
    """Property 11: a row that was given up is bad, or its worker was killed as often as a batch may fail.

    That a neighbour killed a worker is no accident.
    """
    from penstock.backends.simulated.trace import Trace

    assert isinstance(trace, Trace)
    accidents = accidents_of(trace)
    for (pool, name), rows in dead_rows(trace, run.rows).items():
        order = tuple(int(part) for part in name.split("_"))
        case = run.pools[pool]
        bad = (
            set(range(run.rows)) if hits(case.refuse_every, order) else set(poison(case.poison_every, order, run.rows))
        )
        if not rows <= bad:
            assert accidents[f"{pool}/{name}"] >= run.settings.max_attempts


@modest
@given(troubled_runs(), st.integers(1, 40))
def test_kills_from_outside_give_up_no_good_row(run: RunCase, kills: int) -> None:
    """Property 11, while workers are killed at random and some rows are poisonous."""
    pools = tuple(replace(p, hang_probability=0.0, setup_fails_first=0, refuse_every=0, fan="one") for p in run.pools)
    run = replace(run, pools=(replace(pools[0], poison_every=5), *pools[1:]), kills=kills, items=20, lost_node=None)
    trace, scheduler = run.run()
    if scheduler.fatal is None:
        check_only_the_guilty_died(run, trace)


@modest
@given(calm_runs())
def test_batches_depend_on_the_input_alone(run: RunCase) -> None:
    """The same tasks form a batch on any cluster and timing, or the same input would not lead to the same bytes."""
    trace, _ = run.run()
    large = replace(run, nodes=(*run.nodes, Node("large", 64, 256.0)))
    other, _ = large.run(seed=run.seed + 1)
    disturbed, _ = replace(run, kills=2).run()
    for pool in range(len(run.pools)):
        assert batches(trace, pool) == batches(other, pool) == batches(disturbed, pool)


@modest
@given(troubled_runs())
def test_equal_seeds_give_equal_traces_whatever_the_pool_names(run: RunCase) -> None:
    first, _ = run.run()
    second, _ = run.run(prefix="renamed")
    # Reasons name the pools.
    assert repr(first.log) == repr(second.log).replace("renamed", "pool")


@modest
@given(troubled_runs())
def test_the_same_events_lead_to_the_same_actions(run: RunCase) -> None:
    """Property 12: a recorded log replays on a new scheduler."""
    trace, scheduler = run.run()
    fresh = Scheduler(run.specs(), run.cluster, run.settings)
    actions = fresh.begin(0.0, [Output(f"0_{i}", (0, i), 0, run.rows) for i in range(run.items)])
    for time, events in trace.handled:
        fresh.wake_at()
        actions += fresh.handle(time, *(events or [Tick()]))
    assert actions == [action for _, action in trace.actions]
    assert fresh.plans == scheduler.plans


@modest
@given(calm_runs())
def test_constant_rates_do_not_move_workers(run: RunCase) -> None:
    """Property 7: at most three plans, and every started worker gets work.

    When a pool has nothing left to do, its resources are free for the others: that may be worth one plan each time.
    Pools that do not fit at the same time take turns, which is moving all the time.
    """
    pools = tuple(replace(p, law="constant", barrier=False, max_tasks=None, fan="one", batch_size=1) for p in run.pools)
    steady = replace(run, pools=pools, items=300, budget=10**9, batch_mode=False)
    trace, scheduler = steady.run()
    if not packs(steady.cluster, [(pool.need, pool.workers or 1) for pool in pools]):
        return
    ended = next((record.at for record in scheduler.plans if "nothing left" in record.reason), trace.finished_at)
    moves = [record for record in scheduler.plans if record.applied]
    assert sum(record.at < ended for record in moves) <= 3, moves
    assert sum(record.at >= ended for record in moves) < len(pools), moves
    # A worker started when another pool has ended may find that the last items are assigned already.
    check_workers_are_used(trace, started_before=ended)


@pytest.mark.parametrize("budget", [1, 50, 300, 1_000, 5_000])
def test_a_tight_budget_is_kept_and_never_deadlocks(budget: int) -> None:
    from random_runs import PoolCase

    for seed in range(20):
        pools = tuple(
            PoolCase(0.1 * (1 + (seed + i) % 3), "exponential", size=(30, 100, 10)[(seed + i) % 3]) for i in range(4)
        )
        run = RunCase(pools, (Node("a", 6, 16.0),), items=40, budget=budget, seed=seed)
        trace, scheduler = run.run()
        assert len(trace.results) == 40
        assert trace.peak_bytes <= budget
        if budget >= 2 * 3 * (3 * 100):  # every edge can hold one largest item in its private half
            assert scheduler.credits.spilled == 0
