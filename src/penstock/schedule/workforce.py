"""Workers come and go: started where there is room, stopped when they have nothing left to do, replaced in time."""

from __future__ import annotations

from collections import deque

from penstock.schedule.actions import KillWorker, StartWorker, StopWorker
from penstock.schedule.clock import clock_in, clock_out, expect_by
from penstock.schedule.nodes import Placement
from penstock.schedule.state import Batch, PoolState, RunState, Status, WorkerState


def start_missing(run: RunState) -> None:
    """Start the workers that pools want and do not have, each at its place, as soon as that is free."""
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
    """Return how long a worker of a pool may wait for its place; None: it has it at once."""
    settings = run.settings
    return settings.place_timeout_s if pool.spec.place_timeout_s is None else pool.spec.place_timeout_s


def note_placed(run: RunState, worker_id: str) -> None:
    """Note that a worker has its place, and is being set up."""
    worker = run.workers.get(worker_id)
    if worker is not None and worker.placed_at is None:
        worker.placed_at = run.now
        expect_by(run, run.now + run.settings.start_timeout_s)


def note_ready(run: RunState, worker_id: str) -> None:
    """Take a worker in that has been set up; one that is to end by now is not taken in."""
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
    """Forget a worker that is gone; what it was given is still on it, for the caller to pass on."""
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
    _take_off_file(pool, worker)
    if worker.place_is_taken:
        withhold(run, worker)
    else:
        run.nodes.release(pool.spec.need, worker.placement)
        run.freed[worker.placement.node] = None
    if (predecessor := run.workers.get(worker.replaces or "")) is not None:
        predecessor.is_replaced = False
    return worker


def drain(run: RunState, worker: WorkerState) -> None:
    """Let a worker end when it has done what it was given; one that is not ready yet is not waited for."""
    if worker.is_staff and not worker.batches:
        stop(run, worker)
    elif worker.is_staff:
        _leave_staff(run, worker, Status.DRAINING)


def stop(run: RunState, worker: WorkerState) -> None:
    """Stop a worker that has nothing to do, or cancel its start."""
    _begin_to_stop(run, worker)
    run.actions.append(StopWorker(worker.id))


def kill(run: RunState, worker: WorkerState, reason: str) -> deque[Batch]:
    """End a worker in the middle of what it does, and return what it was given."""
    if worker.batches:
        clock_out(run, worker)
    batches, worker.batches = worker.batches, deque()
    _begin_to_stop(run, worker)
    worker.is_killed = True
    run.actions.append(KillWorker(worker.id, reason))
    return batches


def withhold(run: RunState, worker: WorkerState) -> None:
    """Leave a place alone for a while that others have taken; nothing tells when they leave it."""
    until = run.now + (place_timeout(run, run.pools[worker.pool]) or 0.0)
    run.withheld.append((until, worker.pool, worker.placement))
    expect_by(run, until)


def return_withheld(run: RunState) -> None:
    """Try places again that were left alone long enough."""
    due = [entry for entry in run.withheld if entry[0] <= run.now]
    if not due:
        return
    run.withheld = [entry for entry in run.withheld if entry[0] > run.now]
    for _, index, placement in due:
        run.nodes.release(run.pools[index].spec.need, placement)
        run.freed[placement.node] = None
    run.ask_for_plan(f"node '{due[0][2].node}' may have room again")


def kill_overdue_worker(run: RunState, worker: WorkerState, reason: str) -> None:
    """End a worker whose batch takes too long. It keeps the batch until it is gone and its position is known."""
    worker.overdue = (worker.batches[0].id, reason)
    worker.stopping_since = run.now
    _leave_staff(run, worker, Status.DRAINING)
    run.actions.append(KillWorker(worker.id, reason, wants_position=True))
    expect_by(run, run.now + run.settings.stop_timeout_s)


def end_batch(run: RunState, worker: WorkerState) -> None:
    """Take the batch a worker has ended off its list, and see what it does now."""
    pool = run.pools[worker.pool]
    clock_out(run, worker)
    worker.batches.popleft()
    if worker.batches:
        clock_in(run, worker)
    elif worker.status is Status.DRAINING:
        stop(run, worker)
    file_by_load(pool, worker)


def file_by_load(pool: PoolState, worker: WorkerState) -> None:
    """Keep the workers sorted by how much they hold; who waits, or is to go, is given nothing more."""
    _take_off_file(pool, worker)
    if worker.status is Status.READY and not worker.waits_for_credit:
        worker.filed_under = len(worker.batches)
        pool.by_load[worker.filed_under][worker.id] = None


def recycle_if_due(run: RunState, worker: WorkerState) -> None:
    """Replace a worker that has lived, worked or grown too much: the new one first, if there is room for both."""
    pool = run.pools[worker.pool]
    if worker.status is not Status.READY or worker.is_replaced or not _has_served(run, worker):
        return
    coming_and_going = pool.starting + len(pool.workers) - pool.staffed
    if coming_and_going >= max(1, pool.staffed - pool.needed):
        return  # one after the other, so that there is no dip
    if run.now - pool.last_recycled < pool.spec.restart_interval_s:
        return
    pool.last_recycled = run.now
    placement = None if run.pending else run.nodes.place(pool.spec.need)
    if placement is None:
        run.want_at(pool.index, worker.placement)  # its successor comes as soon as it has left
        drain(run, worker)
    else:
        worker.is_replaced = True
        _start(run, pool, placement).replaces = worker.id


def shut_down(run: RunState) -> None:
    """Let every worker go: there is nothing left to do, or no way to do it."""
    for pool in run.pools:
        for worker_id in list(pool.wants):  # nobody would ever give it credit
            kill(run, run.workers[worker_id], run.fatal or "the run ends")
    if not run.shutting_down:
        run.shutting_down = True
        for worker in list(run.workers.values()):
            drain(run, worker)


def _has_served(run: RunState, worker: WorkerState) -> bool:
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
    _take_off_file(pool, worker)


def _take_off_file(pool: PoolState, worker: WorkerState) -> None:
    if worker.filed_under is not None:
        pool.by_load[worker.filed_under].pop(worker.id, None)
        worker.filed_under = None
