"""A worker that does not report in time is replaced, or the run ends with the reason."""

from __future__ import annotations

from typing import TypeVar

from penstock.backends.simulated.law import Law, constant
from penstock.backends.simulated.simulate import simulate
from penstock.core.cluster import Cluster, Node
from penstock.schedule.actions import Action, AskWorker, KillWorker, RunBatch, StartWorker, StopWorker
from penstock.schedule.events import (
    BatchDone,
    Emitted,
    Output,
    Tick,
    WorkerAnswered,
    WorkerGone,
    WorkerPlaced,
    WorkerReady,
)
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings

SETTINGS = Settings(memory_budget=10**9, place_timeout_s=100.0, start_timeout_s=900.0)
Kind = TypeVar("Kind")


def machines(*cpus: float) -> Cluster:
    return Cluster(tuple(Node(f"n{i}", count, 16.0) for i, count in enumerate(cpus)))


def begin(cluster: Cluster, *specs: PoolSpec, items: int = 4) -> tuple[Scheduler, list[StartWorker]]:
    scheduler = Scheduler(specs, cluster, SETTINGS)
    return scheduler, of(StartWorker, scheduler.begin(0.0, [Output(f"0_{i}", (0, i), 0) for i in range(items)]))


def of(kind: type[Kind], actions: list[Action]) -> list[Kind]:
    return [action for action in actions if isinstance(action, kind)]


def test_a_finished_run_does_not_wait_for_a_worker_that_still_starts() -> None:
    scheduler, [first, second] = begin(machines(1, 1), PoolSpec("p"), items=2)
    [run] = of(RunBatch, scheduler.handle(1.0, WorkerPlaced(first.worker), WorkerReady(first.worker)))
    [run] = of(RunBatch, scheduler.handle(2.0, BatchDone(run.worker, run.batch, 1.0)))
    actions = scheduler.handle(3.0, BatchDone(run.worker, run.batch, 1.0))
    assert {stop.worker for stop in of(StopWorker, actions)} == {first.worker, second.worker}
    scheduler.handle(3.1, WorkerReady(second.worker))  # the event was already sent
    scheduler.handle(4.0, WorkerGone(first.worker), WorkerGone(second.worker))
    assert scheduler.finished


def test_a_place_occupied_from_outside_is_not_used_for_a_while() -> None:
    scheduler, starts = begin(machines(1, 1), PoolSpec("p"))
    there = {start.placement.node: start.worker for start in starts}
    scheduler.handle(1.0, WorkerPlaced(there["n0"]), WorkerReady(there["n0"]))
    assert of(StopWorker, scheduler.handle(100.0, Tick())) == [StopWorker(there["n1"])]
    assert of(StartWorker, scheduler.handle(101.0, WorkerGone(there["n1"]))) == []
    assert of(StartWorker, scheduler.handle(150.0, Tick())) == []
    [again] = of(StartWorker, scheduler.handle(201.0, Tick()))
    assert again.placement.node == "n1"


def test_a_pool_whose_place_is_occupied_moves_to_another_node() -> None:
    scheduler, [start] = begin(machines(1, 1), PoolSpec("p"), items=1)
    [again] = of(StartWorker, scheduler.handle(100.0, Tick()))
    assert {start.placement.node, again.placement.node} == {"n0", "n1"}
    scheduler.handle(100.5, WorkerGone(start.worker))
    [run] = of(RunBatch, scheduler.handle(101.0, WorkerPlaced(again.worker), WorkerReady(again.worker)))
    assert run.worker == again.worker


def test_a_run_ends_with_an_error_if_every_place_is_occupied() -> None:
    law = Law(constant(1.0), place_is_taken=lambda attempt: True)
    trace, scheduler = simulate([PoolSpec("p")], [law], machines(1, 1), 4, SETTINGS)
    assert scheduler.fatal is not None
    assert (
        "nothing has moved for 600 s (stall_timeout_s): no worker works, and none could be started" in scheduler.fatal
    )
    assert "p: 4 items to do" in scheduler.fatal
    assert trace.finished_at <= 800.0


def test_a_worker_may_take_ten_minutes_to_start() -> None:
    trace, scheduler = simulate([PoolSpec("p")], [Law(constant(1.0), start_up=600.0)], machines(2), 4, SETTINGS)
    assert scheduler.fatal is None
    assert len(trace.results) == 4
    assert trace.starts == 2


def test_a_setup_that_never_ends_is_retried_and_then_ends_the_run() -> None:
    once = Law(constant(1.0), setup_hangs=lambda attempt: attempt == 1)
    trace, scheduler = simulate([PoolSpec("p")], [once], machines(1), 4, SETTINGS)
    assert len(trace.results) == 4
    always = Law(constant(1.0), setup_hangs=lambda attempt: True)
    _, scheduler = simulate([PoolSpec("p")], [always], machines(1), 4, SETTINGS)
    assert scheduler.fatal == ("workers of pool 'p' cannot be set up: was not ready after start_timeout_s=900")


def test_a_worker_that_confirms_its_batch_may_take_hours() -> None:
    trace, scheduler = simulate([PoolSpec("p")], [Law(constant(36_000.0))], machines(1), 2, SETTINGS, record=True)
    assert scheduler.fatal is None
    assert len(trace.results) == 2
    assert sum(isinstance(entry, AskWorker) for _, entry in trace.log) >= 100


def test_a_worker_that_does_not_answer_is_replaced_and_its_batch_counts_no_failure() -> None:
    scheduler, [start] = begin(machines(1), PoolSpec("p"), items=1)
    [run] = of(RunBatch, scheduler.handle(1.0, WorkerPlaced(start.worker), WorkerReady(start.worker)))
    assert of(AskWorker, scheduler.handle(601.0, Tick())) == [AskWorker(run.worker, run.batch)]
    [kill] = of(KillWorker, scheduler.handle(661.0, Tick()))
    assert kill.reason == "took longer than 60 s to say whether it still works"
    [again] = of(StartWorker, scheduler.handle(662.0, WorkerGone(run.worker)))
    [rerun] = of(RunBatch, scheduler.handle(663.0, WorkerPlaced(again.worker), WorkerReady(again.worker)))
    assert rerun.batch == run.batch
    scheduler.handle(664.0, Emitted(rerun.worker, rerun.batch, (Output("0_0", (0, 0), 0),)))
    scheduler.handle(664.0, BatchDone(rerun.worker, rerun.batch, 1.0))
    assert scheduler.state.results == 1
    assert scheduler.state.dead == 0


def test_a_worker_that_says_it_runs_no_batch_is_replaced_if_no_report_follows() -> None:
    scheduler, [start] = begin(machines(1), PoolSpec("p"), items=1)
    [run] = of(RunBatch, scheduler.handle(1.0, WorkerPlaced(start.worker), WorkerReady(start.worker)))
    scheduler.handle(601.0, Tick())
    assert (
        of(KillWorker, scheduler.handle(602.0, WorkerAnswered(run.worker, None))) == []
    )  # the report may still arrive
    assert len(of(KillWorker, scheduler.handle(661.0, Tick()))) == 1


def test_a_batch_whose_workers_never_answer_ends_the_run() -> None:
    law = Law(constant(1.0), silence_probability=1.0)
    trace, scheduler = simulate([PoolSpec("p")], [law], machines(1), 4, SETTINGS)
    assert scheduler.fatal is not None
    assert "batch 1 of 'p' was given to 3 workers, one after the other, and none of them answered" in scheduler.fatal
    assert "on node 'n0'" in scheduler.fatal
    assert trace.dead == []


def test_a_worker_that_does_not_stop_is_killed_and_then_removed() -> None:
    law = Law(constant(1.0), stop=1_000.0)
    trace, scheduler = simulate([PoolSpec("p")], [law], machines(1), 1, SETTINGS, record=True)
    assert scheduler.finished
    assert [entry.reason for _, entry in trace.log if isinstance(entry, KillWorker)] == ["did not stop within 30 s"]
    deaf = Law(constant(1.0), lost_end_probability=1.0)
    trace, scheduler = simulate([PoolSpec("p")], [deaf], machines(1), 1, SETTINGS)
    assert scheduler.finished
    assert scheduler.fatal is None
