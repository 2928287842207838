"""The reasons that a stalled run reports for each of its pools."""

from __future__ import annotations

from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.resources import Resources
from penstock.schedule.actions import Action, RunBatch, StartWorker
from penstock.schedule.events import BatchDone, CreditWanted, Emitted, Output, Tick, WorkerReady
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings
from penstock.schedule.watchdog import why_nothing_moves


def begin(*specs: PoolSpec, items: int = 2, gpus: int = 1, budget: int = 10**9) -> tuple[Scheduler, list[Action]]:
    machine = Cluster((Node("here", 8, 64, (Gpu(80),) * gpus),))
    scheduler = Scheduler(specs, machine, Settings(memory_budget=budget))
    return scheduler, scheduler.begin(0.0, [Output(f"0_{i}", (0, i), 0) for i in range(items)])


def get_ready(scheduler: Scheduler, actions: list[Action], now: float = 1.0) -> list[RunBatch]:
    workers = [action.worker for action in actions if isinstance(action, StartWorker)]
    return [action for action in scheduler.handle(now, *map(WorkerReady, workers)) if isinstance(action, RunBatch)]


def test_the_reason_for_a_worker_that_does_not_become_ready() -> None:
    scheduler, _ = begin(PoolSpec("read", workers=1))
    scheduler.handle(40.0, Tick())
    assert why_nothing_moves(scheduler.state) == {"read": "a worker starting for 40 s"}
    assert scheduler.state.moved_at == 0.0


def test_the_reason_for_a_batch_that_does_not_end() -> None:
    scheduler, actions = begin(PoolSpec("read", workers=2))
    first, second = get_ready(scheduler, actions)
    scheduler.handle(101.0, BatchDone(second.worker, second.batch, 100.0))
    scheduler.handle(301.0, Tick())
    assert why_nothing_moves(scheduler.state) == {"read": f"batch {first.batch} runs for 300 s"}
    assert scheduler.state.moved_at == 101.0


def test_the_reason_for_waiting_for_credit_names_the_holder() -> None:
    cut, caption = PoolSpec("cut", workers=1), PoolSpec("caption", workers=1)
    scheduler, actions = begin(cut, caption, items=1, budget=2 * 10**9)
    [cutting] = get_ready(scheduler, actions)
    scheduler.handle(2.0, CreditWanted(cutting.worker, cutting.batch, 1_500_000_000))
    scheduler.handle(3.0, Emitted(cutting.worker, cutting.batch, (Output("0_0_0", (0, 0, 0), 1_500_000_000),)))
    scheduler.handle(4.0, CreditWanted(cutting.worker, cutting.batch, 1_200_000_000))
    scheduler.handle(60.0, Tick())
    reasons = why_nothing_moves(scheduler.state)
    assert reasons["cut"] == "waiting for 1.2 GB of credit: 'caption' holds 1.5 GB"
    assert reasons["caption"].endswith("runs for 57 s")


def test_the_reason_for_a_worker_that_fits_nowhere() -> None:
    scheduler, actions = begin(PoolSpec("embed", Resources(gpus=1)), PoolSpec("judge", Resources(gpus=2)), gpus=2)
    running = get_ready(scheduler, actions)
    for i, run in enumerate(running):
        scheduler.handle(2.0, Emitted(run.worker, run.batch, (Output(f"0_{i}", (0, i), 1),)))
    assert why_nothing_moves(scheduler.state)["judge"].startswith("no worker fits: needs 1 CPU, 2 GPUs, ")


def test_the_reasons_for_an_incomplete_batch_and_a_waiting_barrier() -> None:
    pools = PoolSpec("read", workers=1), PoolSpec("group", batch_size=8, workers=1), PoolSpec("sort", barrier=True)
    scheduler, actions = begin(*pools, items=20)
    [reading] = get_ready(scheduler, actions)
    scheduler.handle(2.0, Emitted(reading.worker, reading.batch, (Output("0_0", (0, 0), 1),)))
    reasons = why_nothing_moves(scheduler.state)
    assert reasons["read"].startswith(f"batch {reading.batch} runs for 1 s")
    assert reasons["group"].startswith("has 1 of the 8 items of a batch")
    assert "sort" not in reasons, "it has no items yet"
