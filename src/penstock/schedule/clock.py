"""Track since when each worker runs its batch. Busy time excludes waiting; batches have deadlines."""

from __future__ import annotations

import heapq
from math import inf

from penstock.schedule.state import RunState, WorkerState


def clock_in(run: RunState, worker: WorkerState) -> None:
    """Record that a worker begins the first of its batches."""
    worker.running_since = run.now
    note_heard(run, worker)
    _count(run, worker, 1)


def note_heard(run: RunState, worker: WorkerState) -> None:
    """Record a message from a worker about its batch, or the assignment of the batch."""
    worker.heard_at = run.now
    worker.asked_at = None
    deadline = run.now + run.settings.stall_timeout_s
    if deadline < run.next_check:
        run.next_check = deadline


def expect_by(run: RunState, deadline: float) -> None:
    """Check for workers that have not answered no later than ``deadline``."""
    run.next_check = min(run.next_check, deadline)


def clock_out(run: RunState, worker: WorkerState) -> None:
    """Record that a worker has ended its batch, successfully or not."""
    if worker.waits_for_credit:
        worker.waits_for_credit = False
        run.pools[worker.pool].wants.pop(worker.id, None)
    else:
        _count(run, worker, -1)


def pause(run: RunState, worker: WorkerState) -> None:
    """Record that a worker waits for credit. Waiting counts neither for the speed of its pool nor for its deadline."""
    _count(run, worker, -1)
    worker.worked_before_waiting = run.now - worker.running_since
    worker.waits_for_credit = True
    run.pools[worker.pool].waited_at = run.now


def resume(run: RunState, worker: WorkerState) -> None:
    """Record that a worker continues after waiting for credit."""
    worker.waits_for_credit = False
    worker.running_since = run.now - worker.worked_before_waiting
    run.pools[worker.pool].waited_at = run.now
    note_heard(run, worker)
    _count(run, worker, 1)


def next_deadline(run: RunState) -> float:
    """Return the earliest deadline of the running batches."""
    while run.deadlines and not _is_current(run, *run.deadlines[0]):
        heapq.heappop(run.deadlines)
    return run.deadlines[0][0] if run.deadlines else inf


def take_overdue(run: RunState) -> list[WorkerState]:
    """Return the workers whose batch is past its deadline."""
    overdue = []
    while next_deadline(run) <= run.now:
        overdue.append(run.workers[heapq.heappop(run.deadlines)[1]])
    return overdue


def _count(run: RunState, worker: WorkerState, sign: int) -> None:
    pool = run.pools[worker.pool]
    run.busy += sign
    pool.running += sign
    # Reset to 0 when no worker is busy, so that rounding errors do not add up.
    pool.running_since = pool.running_since + sign * worker.running_since if pool.running else 0.0
    if sign > 0 and pool.spec.timeout_s is not None:
        deadline = worker.running_since + pool.spec.timeout_s
        heapq.heappush(run.deadlines, (deadline, worker.id, worker.batches[0].id))


def _is_current(run: RunState, deadline: float, worker_id: str, batch_id: int) -> bool:
    worker = run.workers.get(worker_id)
    if worker is None or not worker.batches or worker.batches[0].id != batch_id or worker.waits_for_credit:
        return False
    return deadline == worker.running_since + (run.pools[worker.pool].spec.timeout_s or inf)
