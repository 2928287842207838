"""Feed events and compare the actions: details that random runs would hide."""

from __future__ import annotations

from typing import Any

from penstock.backends.simulated.law import Law, constant
from penstock.backends.simulated.simulate import simulate
from penstock.core.cluster import Cluster, Node
from penstock.core.resources import Resources
from penstock.schedule.actions import (
    Action,
    DeadLetter,
    DropItems,
    GrantCredit,
    KillWorker,
    RunBatch,
    Selection,
    StartWorker,
    StopWorker,
)
from penstock.schedule.events import (
    BatchDone,
    BatchFailed,
    CreditWanted,
    Emitted,
    NodeAdded,
    NodeLost,
    Output,
    StopAsked,
    Tick,
    WorkerGone,
    WorkerLost,
    WorkerReady,
)
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings

AMPLE_BUDGET = Settings(memory_budget=10**9)


def machine(cpus: float = 4) -> Cluster:
    return Cluster((Node("here", cpus, 64.0),))


def sources(count: int, rows: int = 1) -> list[Output]:
    return [Output(f"0_{i}", (0, i), 0, rows) for i in range(count)]


def of(kind: type, actions: list[Action]) -> list[Action]:
    return [action for action in actions if isinstance(action, kind)]


def test_a_run_from_start_to_end() -> None:
    scheduler = Scheduler([PoolSpec("only", workers=1)], machine(), AMPLE_BUDGET)
    [start] = scheduler.begin(0.0, sources(1))
    assert isinstance(start, StartWorker)
    [run] = scheduler.handle(1.0, WorkerReady(start.worker))
    assert run == RunBatch(start.worker, 1, ("0/0_0",), 0)
    done = scheduler.handle(2.0, Emitted(start.worker, 1, (Output("0_0", (0, 0), 5),)), BatchDone(start.worker, 1, 1.0))
    assert done == [DropItems(("0/0_0",)), StopWorker(start.worker)]
    assert not scheduler.finished
    assert scheduler.handle(3.0, WorkerGone(start.worker)) == []
    assert scheduler.finished
    assert scheduler.state.results == 1


def ready(scheduler: Scheduler, items: int = 4, rows: int = 1) -> tuple[str, RunBatch]:
    """Start one worker, and return it with its first batch."""
    actions = scheduler.begin(0.0, sources(items, rows))
    worker = next(action.worker for action in actions if isinstance(action, StartWorker))
    [run] = of(RunBatch, scheduler.handle(0.0, WorkerReady(worker)))
    assert isinstance(run, RunBatch)
    return worker, run


def test_small_outputs_need_no_credit_request_when_budget_is_ample() -> None:
    pools = [PoolSpec("first"), PoolSpec("second")]
    _, ample = ready(Scheduler(pools, machine(), AMPLE_BUDGET))
    _, scarce = ready(Scheduler(pools, machine(), Settings(memory_budget=100_000)))
    assert ample.credit == 4096
    assert scarce.credit < 100


def test_a_pool_downstream_of_a_barrier_gets_credit_like_any_other() -> None:
    """The batch of a barrier is its whole input, which must not count as larger than the budget."""
    everything = PoolSpec("all", workers=1, batch_size=10**9, barrier=True, expected_output_bytes=500.0)
    scheduler = Scheduler([PoolSpec("first", workers=1), everything, PoolSpec("last")], machine(), AMPLE_BUDGET)
    worker, run = ready(scheduler, items=1)
    output = Output("0_0", (0, 0), 700)
    actions = scheduler.handle(1.0, Emitted(worker, run.batch, (output,)), BatchDone(worker, run.batch, 1.0))
    [start] = [action for action in actions if isinstance(action, StartWorker) and action.pool == 1]
    [again] = of(RunBatch, scheduler.handle(2.0, WorkerReady(start.worker)))
    assert isinstance(again, RunBatch)
    assert again.credit == 4096


def test_a_hanging_worker_is_killed_while_others_send_events() -> None:
    """There is no Tick: every call brings another event."""
    scheduler = Scheduler([PoolSpec("p", workers=2, timeout_s=10.0)], machine(), AMPLE_BUDGET)
    one, two = (action.worker for action in scheduler.begin(0.0, sources(50)) if isinstance(action, StartWorker))
    batches = {run.worker: run.batch for run in scheduler.handle(0.0, WorkerReady(one), WorkerReady(two))
               if isinstance(run, RunBatch)}  # fmt: skip
    assert scheduler.wake_at() <= 10.0
    killed: list[Action] = []
    for second in range(1, 12):
        actions = scheduler.handle(float(second), BatchDone(two, batches[two], 1.0))
        batches.update({run.worker: run.batch for run in actions if isinstance(run, RunBatch)})
        killed += of(KillWorker, actions)
    assert killed == [KillWorker(one, "took longer than task_timeout_s=10", wants_position=True)]


def test_waiting_for_credit_counts_neither_as_hanging_nor_as_busy() -> None:
    specs = [PoolSpec("a", workers=1, timeout_s=10.0), PoolSpec("b", workers=1)]
    scheduler = Scheduler(specs, machine(), Settings(memory_budget=100))
    starts = [action.worker for action in scheduler.begin(0.0, sources(9)) if isinstance(action, StartWorker)]
    actions = scheduler.handle(0.0, *map(WorkerReady, starts))
    [run] = of(RunBatch, actions)
    assert isinstance(run, RunBatch)
    giver, taker = run.worker, next(worker for worker in starts if worker != run.worker)
    [grant] = scheduler.handle(9.0, CreditWanted(giver, run.batch, 90))
    assert grant == GrantCredit(giver, run.batch, 90)
    [taken] = of(RunBatch, scheduler.handle(9.0, Emitted(giver, run.batch, (Output("x", (0, 0, 0), 90),))))
    assert isinstance(taken, RunBatch)
    assert taken.worker == taker
    assert scheduler.handle(9.0, CreditWanted(giver, run.batch, 90)) == []
    assert scheduler.pools[0].running == 0
    assert of(KillWorker, scheduler.handle(1000.0, Tick())) == []
    freed = scheduler.handle(1000.0, BatchDone(taker, taken.batch, 991.0))
    assert GrantCredit(giver, run.batch, 90) in freed
    assert of(KillWorker, scheduler.handle(1000.9, Tick())) == []
    assert of(KillWorker, scheduler.handle(1001.0, Tick())) != [], "it had one second left"


def test_of_equally_loaded_workers_one_on_the_node_that_stores_the_batch_is_preferred() -> None:
    two = Cluster((Node("n0", 2.5, 8), Node("n1", 2.5, 8)))
    specs = [PoolSpec("make", Resources(cpus=1.5), workers=2), PoolSpec("take", workers=2)]
    scheduler = Scheduler(specs, two, AMPLE_BUDGET)
    starts = [action for action in scheduler.begin(0.0, sources(2)) if isinstance(action, StartWorker)]
    node_of = {start.worker: start.placement.node for start in starts}
    takers = [start.worker for start in starts if start.pool == 1]
    assert {node_of[taker] for taker in takers} == {"n0", "n1"}
    runs = [run for run in scheduler.handle(1.0, *(WorkerReady(w) for w in node_of)) if isinstance(run, RunBatch)]
    for run in reversed(runs):  # the worker that was ready first is not always the nearest
        output = Output(f"x{run.batch}", (0, run.batch), 2_000_000)
        [taken] = of(RunBatch, scheduler.handle(2.0, Emitted(run.worker, run.batch, (output,))))
        assert isinstance(taken, RunBatch)
        assert node_of[taken.worker] == node_of[run.worker]


def test_one_output_is_spilled_when_nothing_moves() -> None:
    scheduler = Scheduler([PoolSpec("a", workers=1), PoolSpec("b", workers=1)], machine(), Settings(memory_budget=10))
    starts = [action.worker for action in scheduler.begin(0.0, sources(1)) if isinstance(action, StartWorker)]
    [run] = of(RunBatch, scheduler.handle(0.0, *map(WorkerReady, starts)))
    assert isinstance(run, RunBatch)
    assert scheduler.handle(1.0, CreditWanted(run.worker, run.batch, 50)) == [
        GrantCredit(run.worker, run.batch, 0, spill=True)
    ]
    scheduler.handle(1.0, Emitted(run.worker, run.batch, (Output("x", (0, 0), 0),)))
    assert (scheduler.credits.held, scheduler.credits.spilled) == (0, 1)


def test_a_death_makes_only_the_running_batch_suspect() -> None:
    settings = Settings(memory_budget=10**9, round_trip_s=10.0)
    scheduler = Scheduler([PoolSpec("p", workers=1, expected_seconds=0.01)], machine(), settings)
    actions = scheduler.begin(0.0, sources(20))
    [start] = of(StartWorker, actions)
    assert isinstance(start, StartWorker)
    given = of(RunBatch, scheduler.handle(0.0, WorkerReady(start.worker)))
    assert len(given) > 1, "some batches are assigned ahead"
    scheduler.handle(1.0, WorkerLost(start.worker, "killed"))
    attempts = {batch.id: batch.attempts for batch in scheduler.pools[0].retries}
    assert sum(attempts.values()) == 1
    assert len(attempts) == len(given)


def test_a_lost_node_counts_no_failed_attempt() -> None:
    """Nodes are lost more often than a batch or a setup may fail, before and after their workers are ready."""
    scheduler = Scheduler([PoolSpec("p", workers=1)], Cluster((Node("n0", 1, 8),)), AMPLE_BUDGET)
    actions = scheduler.begin(0.0, sources(1))
    for number in range(1, 9):
        [start] = of(StartWorker, actions)
        assert isinstance(start, StartWorker)
        if number % 2:
            assert of(RunBatch, scheduler.handle(float(number), WorkerReady(start.worker)))
        scheduler.handle(float(number), NodeLost(f"n{number - 1}"))
        actions = scheduler.handle(float(number), NodeAdded(Node(f"n{number}", 1, 8)))
    assert scheduler.fatal is None
    assert scheduler.state.dead == 0
    [batch] = scheduler.pools[0].retries
    assert batch.attempts == 0


def test_a_failing_task_does_not_affect_others_in_its_batch() -> None:
    scheduler = Scheduler([PoolSpec("p", batch_size=4, workers=1)], machine(), AMPLE_BUDGET)
    worker, run = ready(scheduler, items=4, rows=10)
    dead: list[Action] = []
    queue = [run]
    while queue:
        batch = queue.pop()
        picked = [(s.start, s.stop or 40, s.without) for s in batch.selections] or [(0, 40, ())]
        refused = any(start <= row < stop and row not in without for start, stop, without in picked for row in (25,))
        event = BatchFailed(worker, batch.batch, "no such column") if refused else BatchDone(worker, batch.batch, 0.1)
        actions = scheduler.handle(1.0, event)
        dead += of(DeadLetter, actions)
        queue += [action for action in actions if isinstance(action, RunBatch)]
    [letter] = dead
    assert isinstance(letter, DeadLetter)
    assert letter.rows == tuple(range(20, 30)), "all rows of the third task, and no others"
    assert not scheduler.state.items


def test_an_error_that_stops_the_run_gives_up_no_task() -> None:
    scheduler = Scheduler([PoolSpec("p", batch_size=4, workers=1)], machine(), AMPLE_BUDGET)
    worker, run = ready(scheduler, items=4, rows=10)
    actions = scheduler.handle(1.0, BatchFailed(worker, run.batch, "the disk is full", stops_run=True))
    assert scheduler.fatal == "the disk is full"
    assert of(DeadLetter, actions) == of(RunBatch, actions) == []
    assert len(of(StopWorker, actions)) == 1
    assert scheduler.state.dead == 0


def test_a_late_output_is_dropped_unless_a_later_attempt_has_emitted_it() -> None:
    scheduler = Scheduler([PoolSpec("a", workers=1, timeout_s=5.0), PoolSpec("b", workers=1)], machine(), AMPLE_BUDGET)
    starts = [action.worker for action in scheduler.begin(0.0, sources(1)) if isinstance(action, StartWorker)]
    [run] = of(RunBatch, scheduler.handle(0.0, WorkerReady(starts[0])))
    assert isinstance(run, RunBatch)
    actions = scheduler.handle(5.0, Tick())
    assert of(KillWorker, actions)
    [again] = of(StartWorker, actions)
    assert isinstance(again, StartWorker)
    late = Emitted(run.worker, run.batch, (Output("0_0", (0, 0), 5),))
    scheduler.handle(5.1, WorkerGone(run.worker))
    assert scheduler.handle(5.2, late) == [DropItems(("1/0_0",))]
    scheduler.handle(6.0, WorkerReady(again.worker))
    scheduler.handle(7.0, Emitted(again.worker, run.batch, (Output("0_0", (0, 0), 5),)))
    assert DropItems(("1/0_0",)) not in scheduler.handle(7.1, late), "that would drop the good output"


def hung(**settings: Any) -> tuple[Scheduler, str, RunBatch]:
    """Return a scheduler that has just killed a worker for a batch of one file, which its chain turns into many rows."""
    limits = Settings(memory_budget=10**9, **settings)
    scheduler = Scheduler([PoolSpec("p", workers=1, timeout_s=5.0)], machine(), limits)
    worker, run = ready(scheduler, items=1)
    assert of(KillWorker, scheduler.handle(5.0, Tick()))
    return scheduler, worker, run


def test_a_result_that_arrives_before_a_killed_worker_has_ended_counts() -> None:
    scheduler, worker, run = hung()
    scheduler.handle(5.1, BatchDone(worker, run.batch, 5.1))
    scheduler.handle(5.2, WorkerLost(worker, "killed", 2, 100))
    assert scheduler.pools[0].done == 1
    assert not scheduler.state.items


def test_after_a_timeout_rows_are_searched_at_the_step_that_hung() -> None:
    scheduler, worker, _ = hung(max_attempts=1)
    scheduler.handle(5.1, WorkerLost(worker, "killed", 2, 100))
    [batch] = scheduler.pools[0].retries
    assert batch.selections == (Selection(2, 0, 50),)


def test_a_killed_worker_without_a_known_position_counts_as_an_attempt() -> None:
    scheduler, worker, _ = hung(max_attempts=3)
    scheduler.handle(5.1, WorkerGone(worker))
    [batch] = scheduler.pools[0].retries
    assert batch.attempts == 1


def test_the_batches_of_a_worker_that_ended_are_requeued() -> None:
    scheduler = Scheduler([PoolSpec("p", workers=1)], machine(), AMPLE_BUDGET)
    worker, run = ready(scheduler, items=1)
    scheduler.handle(1.0, WorkerGone(worker))
    assert [batch.id for batch in scheduler.pools[0].retries] == [run.batch]


def test_setups_that_always_fail_end_the_run_with_the_reason() -> None:
    law = Law(constant(1.0), start_up=1.0, setup_fails=lambda attempt: True)
    trace, scheduler = simulate([PoolSpec("a"), PoolSpec("b")], [Law(constant(0.1)), law], machine(), 100)
    assert scheduler.fatal == "workers of pool 'b' cannot be set up: setup failed"
    assert scheduler.finished
    assert trace.finished_at < 60


def test_a_pool_keeps_its_workers_when_the_setup_of_more_fails() -> None:
    """As with a model that fits into memory twice: the first two workers become ready, no other does."""
    law = Law(constant(0.5), start_up=0.1, setup_fails=lambda attempt: attempt > 2)
    trace, scheduler = simulate([PoolSpec("p")], [law], machine(8), 100)
    assert scheduler.fatal is None
    assert len(trace.results) == 100
    assert scheduler.pools[0].ceiling == 2
    assert trace.starts <= 20


def test_stopping_drops_sources_and_finishes_work_that_has_begun() -> None:
    scheduler = Scheduler([PoolSpec("list", workers=1), PoolSpec("read", workers=1)], machine(), AMPLE_BUDGET)
    starts = [
        action.worker for action in scheduler.begin(0.0, [Output("0", (0,), 0)]) if isinstance(action, StartWorker)
    ]
    actions = scheduler.handle(0.0, *map(WorkerReady, starts))
    [listing] = of(RunBatch, actions)
    assert isinstance(listing, RunBatch)
    outputs = tuple(Output(f"0_{i}", (0, i), 0) for i in range(5))
    [reading] = of(RunBatch, scheduler.handle(1.0, Emitted(listing.worker, listing.batch, outputs)))
    assert isinstance(reading, RunBatch)
    scheduler.handle(2.0, StopAsked())
    assert scheduler.state.abandoned == 4
    scheduler.handle(2.0, Emitted(listing.worker, listing.batch, (Output("0_9", (0, 9), 0),)))
    assert scheduler.state.abandoned == 5, "tasks that the source lists after the stop are dropped too"
    listed = scheduler.handle(3.0, BatchDone(listing.worker, listing.batch, 3.0))
    assert of(StopWorker, listed) == [StopWorker(listing.worker)], "no item can arrive there any more"
    scheduler.handle(3.0, Emitted(reading.worker, reading.batch, (Output("0_0", (0, 0), 0),)))
    last = scheduler.handle(3.0, BatchDone(reading.worker, reading.batch, 2.0))
    assert of(StopWorker, last) == [StopWorker(reading.worker)]
    assert scheduler.state.results == 1


def test_stopping_does_not_run_a_barrier_on_a_part_of_its_input() -> None:
    pools = [PoolSpec("read", workers=2), PoolSpec("all", workers=1, batch_size=1000, barrier=True), PoolSpec("end")]
    scheduler = Scheduler(pools, machine(), AMPLE_BUDGET)
    starts = [action.worker for action in scheduler.begin(0.0, sources(4)) if isinstance(action, StartWorker)]
    batches = [action for worker in starts for action in scheduler.handle(0.0, WorkerReady(worker))]
    one, other, *_ = [action for action in batches if isinstance(action, RunBatch)]
    scheduler.handle(
        1.0, Emitted(one.worker, one.batch, (Output("0_0", (0, 0), 0),)), BatchDone(one.worker, one.batch, 1.0)
    )
    scheduler.handle(2.0, StopAsked())
    scheduler.handle(3.0, Emitted(other.worker, other.batch, (Output("0_1", (0, 1), 0),)))
    actions = scheduler.handle(3.0, BatchDone(other.worker, other.batch, 1.0))
    running = [batch for worker in scheduler.workers.values() for batch in worker.batches]
    assert [batch.pool for batch in running] == [0] * len(running)
    assert of(RunBatch, actions) == []
    assert not scheduler.pools[1].items


def test_workers_are_replaced_one_after_the_other_without_a_drop_in_workers() -> None:
    spec = PoolSpec("p", workers=8, max_tasks_per_worker=20)
    trace, _ = simulate([spec], [Law(constant(0.1), start_up=1.0)], machine(10), 2_000, record=True)
    assert trace.starts > 8 * 3
    assert trace.finished_at <= 1.05 * (1.0 + 2_000 * 0.1 / 8)
    up, counts = 0, []
    for time, entry in trace.log:
        up += isinstance(entry, WorkerReady) - isinstance(entry, StopWorker)
        if 2.0 < time < trace.finished_at - 1:
            counts.append(up)
    assert min(counts) >= 7


def test_without_room_for_two_a_worker_stops_before_its_successor_starts() -> None:
    spec = PoolSpec("p", Resources(cpus=1), max_tasks_per_worker=10)
    trace, _ = simulate([spec], [Law(constant(0.1), start_up=0.1)], machine(2), 200)
    assert len(trace.results) == 200
    assert trace.starts >= 10


def test_a_filter_that_drops_everything_does_not_limit_the_other_pools() -> None:
    """The pool downstream is never measured: that must not keep the others at one worker."""
    laws = [Law(constant(0.5), fan_out=lambda order: 0), Law(constant(0.1))]
    trace, _ = simulate([PoolSpec("filter"), PoolSpec("after")], laws, machine(16), 600)
    assert trace.finished_at <= 1.3 * 600 * 0.5 / 15


def test_pools_downstream_of_a_barrier_get_no_worker_before_it_is_reached() -> None:
    specs = [PoolSpec("sign"), PoolSpec("all", Resources(cpus=0), barrier=True, workers=1), PoolSpec("compare")]
    scheduler = Scheduler(specs, machine(2), AMPLE_BUDGET)
    starts = of(StartWorker, scheduler.begin(0.0, sources(8)))
    assert [start.pool for start in starts if isinstance(start, StartWorker)] == [0, 0], (
        "no other pool can use the resources"
    )


def test_all_input_of_a_barrier_may_be_spilled() -> None:
    laws = [Law(constant(0.1), output_bytes=lambda order: 100), Law(constant(0.1))]
    specs = [PoolSpec("a"), PoolSpec("all", barrier=True)]
    trace, scheduler = simulate(specs, laws, machine(4), 200, Settings(memory_budget=1_000))
    assert len(trace.results) == 200
    assert trace.peak_bytes <= 1_000
    assert trace.finished_at <= 1.2 * 200 * 0.2 / 4, "and no worker waits for the spilling"
    assert scheduler.credits.spilled >= 180


def test_measurements_of_an_earlier_run_make_the_first_plan_final() -> None:
    specs = [PoolSpec(name, expected_seconds=s, expected_fan_out=1.0) for name, s in (("a", 0.17), ("b", 0.21))]
    trace, scheduler = simulate(specs, [Law(constant(0.17)), Law(constant(0.21))], machine(126), 5_000)
    assert scheduler.plans[0].workers == (56, 70)
    assert trace.finished_at <= 1.04 * 5_000 * 0.38 / 126


def test_batches_killed_from_outside_are_retried_alternately_first_and_last() -> None:
    """Kills at regular intervals would otherwise always hit the same batch."""
    scheduler = Scheduler([PoolSpec("only", workers=2)], machine(), Settings(memory_budget=10**9, max_attempts=5))
    actions = scheduler.begin(0.0, sources(2))
    first, second = [action.worker for action in of(StartWorker, actions) if isinstance(action, StartWorker)]
    given = scheduler.handle(0.0, WorkerReady(first), WorkerReady(second))
    assert [action.items for action in given if isinstance(action, RunBatch)] == [("0/0_0",), ("0/0_1",)]
    tried: list[tuple[str, ...]] = []
    actions = [
        *scheduler.handle(1.0, WorkerLost(first, "killed", from_outside=True)),
        *scheduler.handle(1.0, WorkerLost(second, "killed", from_outside=True)),
    ]
    for now in range(2, 6):
        worker = next(action.worker for action in actions if isinstance(action, StartWorker))
        [run] = of(RunBatch, scheduler.handle(float(now), WorkerReady(worker)))
        assert isinstance(run, RunBatch)
        tried.append(run.items)
        lost = scheduler.handle(float(now), WorkerLost(worker, "killed", from_outside=True))
        actions = [action for action in [*actions, *lost] if getattr(action, "worker", None) != worker]
    # Both have died once, the second one last, so it is first. Then it is queued last, and after another death first.
    assert tried == [("0/0_1",), ("0/0_0",), ("0/0_1",), ("0/0_1",)]


def largest_batch(spec: PoolSpec, seconds: float, items: int = 400) -> int:
    """Return the number of items in the largest batch of a run whose items take ``seconds``."""
    scheduler = Scheduler([spec], machine(), Settings(memory_budget=10**9, round_trip_s=0.02))
    actions = scheduler.begin(0.0, sources(items))
    worker = next(action.worker for action in actions if isinstance(action, StartWorker))
    queue = [action for action in scheduler.handle(0.0, WorkerReady(worker)) if isinstance(action, RunBatch)]
    most, done = 0, 0
    now = 0.0
    while queue:
        run = queue.pop(0)
        most, done = max(most, len(run.items)), done + len(run.items)
        now += seconds * len(run.items)
        took = BatchDone(worker, run.batch, seconds * len(run.items))
        queue += [action for action in scheduler.handle(now, took) if isinstance(action, RunBatch)]
    assert done == items
    return most


def test_items_shorter_than_the_message_latency_are_sent_together() -> None:
    assert largest_batch(PoolSpec("only", workers=1), 0.00001) == 64
    assert largest_batch(PoolSpec("only", workers=1), 0.0001) == 49
    assert largest_batch(PoolSpec("only", workers=1), 0.001) == 5
    assert largest_batch(PoolSpec("only", workers=1), 0.01) == 1
    assert largest_batch(PoolSpec("only", workers=1), 0.0001, items=20) == 1, "every worker should get a batch"
    assert largest_batch(PoolSpec("only", workers=1, timeout_s=5), 0.0001) == 1, "single tasks have a time limit"


def test_batches_run_alone_in_pools_with_lost_workers_or_a_timeout() -> None:
    """A backend may report the ends of several batches at once; then the first of them would be suspect."""

    def first_orders(spec: PoolSpec, *, lost: bool) -> list[bool]:
        scheduler = Scheduler([spec], machine(), AMPLE_BUDGET)
        worker = next(a.worker for a in scheduler.begin(0.0, sources(3)) if isinstance(a, StartWorker))
        actions = scheduler.handle(1.0, WorkerReady(worker))
        if lost:
            actions = scheduler.handle(2.0, WorkerLost(worker, "killed"))
            again = next(a.worker for a in actions if isinstance(a, StartWorker))
            actions = scheduler.handle(3.0, WorkerReady(again))
        return [a.alone for a in actions if isinstance(a, RunBatch)]

    assert first_orders(PoolSpec("only", workers=1), lost=False) == [False]
    assert first_orders(PoolSpec("only", workers=1), lost=True) == [True]
    assert first_orders(PoolSpec("only", workers=1, timeout_s=5), lost=False) == [True]
