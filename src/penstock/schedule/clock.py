"""Who is at work since when: busy time never counts waiting, and nothing runs longer than it may."""

from __future__ import annotations

import heapq
from math import inf

from penstock.schedule.state import RunState, WorkerState


def clock_in(run: RunState, worker: WorkerState) -> None:
    """Note that a worker begins the first of its batches."""
    worker.running_since = run.now
    note_heard(run, worker)
    _count(run, worker, 1)


def note_heard(run: RunState, worker: WorkerState) -> None:
    """Note that a worker has said something about its batch, or has just been given it."""
    worker.heard_at = run.now
    worker.asked_at = None
    deadline = run.now + run.settings.stall_timeout_s
    if deadline < run.next_check:
        run.next_check = deadline


def expect_by(run: RunState, deadline: float) -> None:
    """Look for workers that have not answered at this time, if not before."""
    run.next_check = min(run.next_check, deadline)


def clock_out(run: RunState, worker: WorkerState) -> None:
    """Note that a worker has ended its batch, one way or another."""
    if worker.waits_for_credit:
        worker.waits_for_credit = False
        run.pools[worker.pool].wants.pop(worker.id, None)
    else:
        _count(run, worker, -1)


def pause(run: RunState, worker: WorkerState) -> None:
    """Note that a worker waits: that is not work, neither for its pool's speed nor for its deadline."""
    _count(run, worker, -1)
    worker.worked_before_waiting = run.now - worker.running_since
    worker.waits_for_credit = True
    run.pools[worker.pool].waited_at = run.now


def resume(run: RunState, worker: WorkerState) -> None:
    """Note that a worker goes on."""
    worker.waits_for_credit = False
    worker.running_since = run.now - worker.worked_before_waiting
    run.pools[worker.pool].waited_at = run.now
    note_heard(run, worker)
    _count(run, worker, 1)


def next_deadline(run: RunState) -> float:
    """Return when the first of the running batches has to be done."""
    while run.deadlines and not _is_current(run, *run.deadlines[0]):
        heapq.heappop(run.deadlines)
    return run.deadlines[0][0] if run.deadlines else inf


def take_overdue(run: RunState) -> list[WorkerState]:
    """Return the workers whose batch has run longer than it may."""
    overdue = []
    while next_deadline(run) <= run.now:
        overdue.append(run.workers[heapq.heappop(run.deadlines)[1]])
    return overdue


def _count(run: RunState, worker: WorkerState, sign: int) -> None:
    pool = run.pools[worker.pool]
    run.busy += sign
    pool.running += sign
    # Nothing is left of rounding errors whenever nobody is at work.
    pool.running_since = pool.running_since + sign * worker.running_since if pool.running else 0.0
    if sign > 0 and pool.spec.timeout_s is not None:
        deadline = worker.running_since + pool.spec.timeout_s
        heapq.heappush(run.deadlines, (deadline, worker.id, worker.batches[0].id))


def _is_current(run: RunState, deadline: float, worker_id: str, batch_id: int) -> bool:
    worker = run.workers.get(worker_id)
    if worker is None or not worker.batches or worker.batches[0].id != batch_id or worker.waits_for_credit:
        return False
    return deadline == worker.running_since + (run.pools[worker.pool].spec.timeout_s or inf)
