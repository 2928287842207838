"""Start, stop and replace workers."""

from __future__ import annotations

from collections import deque

from penstock.schedule.actions import KillWorker, StartWorker, StopWorker
from penstock.schedule.clock import clock_in, clock_out, expect_by
from penstock.schedule.nodes import Placement
from penstock.schedule.state import Batch, PoolState, RunState, Status, WorkerState


def start_missing(run: RunState) -> None:
    """Start the missing workers of the plan, each at its place as soon as that is free."""
    freed, run.freed = run.freed, {}
    for node in freed:
        waiting = []
        for index, placement in run.pending.pop(node, ()):
            pool = run.pools[index]
            if pool.staffed >= pool.wanted:
                continue
            if run.nodes.take(pool.spec.need, placement):
                _start(run, pool, placement)
            else:
                waiting.append((index, placement))
        if waiting:
            run.pending[node] = waiting


def _start(run: RunState, pool: PoolState, placement: Placement) -> WorkerState:
    run.worker_count += 1
    worker = WorkerState(f"w{run.worker_count}", pool.index, placement, run.now)
    timeout = place_timeout(run, pool)
    worker.placed_at = run.now if timeout is None else None
    expect_by(run, run.now + (run.settings.start_timeout_s if timeout is None else timeout))
    run.workers[worker.id] = pool.workers[worker.id] = worker
    run.pool_of[worker.id] = pool.index
    run.in_transition += 1
    pool.staffed += 1
    pool.starting += 1
    run.actions.append(StartWorker(worker.id, pool.index, placement))
    return worker


def place_timeout(run: RunState, pool: PoolState) -> float | None:
    """Return how long a worker of a pool may wait for its resources; None: they are available at once."""
    settings = run.settings
    return settings.place_timeout_s if pool.spec.place_timeout_s is None else pool.spec.place_timeout_s


def note_placed(run: RunState, worker_id: str) -> None:
    """Record that a worker has its resources and is being set up."""
    worker = run.workers.get(worker_id)
    if worker is not None and worker.placed_at is None:
        worker.placed_at = run.now
        expect_by(run, run.now + run.settings.start_timeout_s)


def note_ready(run: RunState, worker_id: str) -> None:
    """Record that a worker is ready; ignored if it is already stopping."""
    worker = run.workers.get(worker_id)
    if worker is None or worker.status is not Status.STARTING:
        return
    pool = run.pools[worker.pool]
    worker.is_up = True
    worker.ready_at = run.now
    run.in_transition -= 1
    pool.starting -= 1
    pool.estimate.started(run.now - worker.started_at)
    pool.setup_failures = 0
    worker.status = Status.READY
    file_by_load(pool, worker)
    predecessor = run.workers.get(worker.replaces or "")
    if predecessor is not None:
        drain(run, predecessor)


def remove(run: RunState, worker_id: str) -> WorkerState | None:
    """Remove a worker that has ended, and return it with its batches, which the caller has to requeue."""
    worker = run.workers.pop(worker_id, None)
    if worker is None:
        return None
    pool = run.pools[worker.pool]
    del pool.workers[worker_id]
    pool.staffed -= worker.is_staff
    pool.starting -= worker.status is Status.STARTING
    run.in_transition -= worker.status in (Status.STARTING, Status.STOPPING)
    if worker.batches:
        clock_out(run, worker)
    _unlist(pool, worker)
    if worker.place_is_taken:
        withhold(run, worker)
    else:
        run.nodes.release(pool.spec.need, worker.placement)
        run.freed[worker.placement.node] = None
    if (predecessor := run.workers.get(worker.replaces or "")) is not None:
        predecessor.is_replaced = False
    return worker


def drain(run: RunState, worker: WorkerState) -> None:
    """Stop a worker after its assigned batches; one without batches is stopped at once."""
    if worker.is_staff and not worker.batches:
        stop(run, worker)
    elif worker.is_staff:
        _leave_staff(run, worker, Status.DRAINING)


def stop(run: RunState, worker: WorkerState) -> None:
    """Stop a worker without batches, or cancel its start."""
    _begin_to_stop(run, worker)
    run.actions.append(StopWorker(worker.id))


def kill(run: RunState, worker: WorkerState, reason: str) -> deque[Batch]:
    """Kill a worker, and return its batches."""
    if worker.batches:
        clock_out(run, worker)
    batches, worker.batches = worker.batches, deque()
    _begin_to_stop(run, worker)
    worker.is_killed = True
    run.actions.append(KillWorker(worker.id, reason))
    return batches


def withhold(run: RunState, worker: WorkerState) -> None:
    """Do not use a place for a while that is occupied from outside the run; its release is not reported."""
    until = run.now + (place_timeout(run, run.pools[worker.pool]) or 0.0)
    run.withheld.append((until, worker.pool, worker.placement))
    expect_by(run, until)


def return_withheld(run: RunState) -> None:
    """Use withheld places again whose time has passed."""
    due = [entry for entry in run.withheld if entry[0] <= run.now]
    if not due:
        return
    run.withheld = [entry for entry in run.withheld if entry[0] > run.now]
    for _, index, placement in due:
        run.nodes.release(run.pools[index].spec.need, placement)
        run.freed[placement.node] = None
    run.ask_for_plan(f"node '{due[0][2].node}' may have room again")


def kill_overdue_worker(run: RunState, worker: WorkerState, reason: str) -> None:
    """Kill a worker whose batch is overdue. It keeps the batch until it has ended and its position is known."""
    worker.overdue = (worker.batches[0].id, reason)
    worker.stopping_since = run.now
    _leave_staff(run, worker, Status.DRAINING)
    run.actions.append(KillWorker(worker.id, reason, wants_position=True))
    expect_by(run, run.now + run.settings.stop_timeout_s)


def end_batch(run: RunState, worker: WorkerState) -> None:
    """Remove the finished batch of a worker, and begin its next one or stop it."""
    pool = run.pools[worker.pool]
    clock_out(run, worker)
    worker.batches.popleft()
    if worker.batches:
        clock_in(run, worker)
    elif worker.status is Status.DRAINING:
        stop(run, worker)
    file_by_load(pool, worker)


def file_by_load(pool: PoolState, worker: WorkerState) -> None:
    """List a worker under its number of batches; workers that wait for credit or stop are not listed."""
    _unlist(pool, worker)
    if worker.status is Status.READY and not worker.waits_for_credit:
        worker.filed_under = len(worker.batches)
        pool.by_load[worker.filed_under][worker.id] = None


def recycle_if_due(run: RunState, worker: WorkerState) -> None:
    """Replace a worker that exceeds a limit of age, tasks or memory; start the new one first if both fit."""
    pool = run.pools[worker.pool]
    if worker.status is not Status.READY or worker.is_replaced or not _exceeds_limit(run, worker):
        return
    in_transition = pool.starting + len(pool.workers) - pool.staffed
    if in_transition >= max(1, pool.staffed - pool.needed):
        return  # one after the other, so that throughput does not drop
    if run.now - pool.last_recycled < pool.spec.restart_interval_s:
        return
    pool.last_recycled = run.now
    placement = None if run.pending else run.nodes.place(pool.spec.need)
    if placement is None:
        run.want_at(pool.index, worker.placement)  # its successor starts as soon as it has ended
        drain(run, worker)
    else:
        worker.is_replaced = True
        _start(run, pool, placement).replaces = worker.id


def shut_down(run: RunState) -> None:
    """Stop all workers: no work is left, or the run has failed."""
    for pool in run.pools:
        for worker_id in list(pool.wants):  # it would never get credit
            kill(run, run.workers[worker_id], run.fatal or "the run ends")
    if not run.shutting_down:
        run.shutting_down = True
        for worker in list(run.workers.values()):
            drain(run, worker)


def _exceeds_limit(run: RunState, worker: WorkerState) -> bool:
    spec = run.pools[worker.pool].spec
    too_old = spec.max_lifetime_s is not None and run.now - worker.ready_at >= spec.max_lifetime_s
    too_used = spec.max_tasks_per_worker is not None and worker.tasks_done >= spec.max_tasks_per_worker
    growth = worker.resident_bytes - worker.first_resident_bytes
    return too_old or too_used or (spec.max_resident_growth is not None and growth >= spec.max_resident_growth)


def _begin_to_stop(run: RunState, worker: WorkerState) -> None:
    run.pools[worker.pool].starting -= worker.status is Status.STARTING
    run.in_transition += worker.status not in (Status.STARTING, Status.STOPPING)
    worker.stopping_since = run.now
    expect_by(run, run.now + run.settings.stop_timeout_s)
    _leave_staff(run, worker, Status.STOPPING)


def _leave_staff(run: RunState, worker: WorkerState, status: Status) -> None:
    pool = run.pools[worker.pool]
    pool.staffed -= worker.is_staff
    worker.status = status
    _unlist(pool, worker)


def _unlist(pool: PoolState, worker: WorkerState) -> None:
    if worker.filed_under is not None:
        pool.by_load[worker.filed_under].pop(worker.id, None)
        worker.filed_under = None
