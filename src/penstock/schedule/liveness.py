"""Enforce deadlines on every wait: a worker that does not report in time is replaced, or the run ends.

A starting worker has to get its resources, and then to become ready; a stopping worker has to end. A worker that runs a
batch is asked when it has sent nothing for long: a batch may take hours, as long as its worker confirms that it runs
it. If no worker is active, and none becomes active, the run ends with an error.
"""

from __future__ import annotations

from math import inf

from penstock.schedule.actions import AskWorker, KillWorker
from penstock.schedule.clock import note_heard
from penstock.schedule.dispatch import is_runnable
from penstock.schedule.failures import Death, requeue, start_failed, worker_gone
from penstock.schedule.items import running_batch
from penstock.schedule.state import RunState, Status, WorkerState
from penstock.schedule.watchdog import state_of
from penstock.schedule.workforce import kill, place_timeout, return_withheld, stop

# A batch is assigned to at least this many workers before their silence ends the run.
_MIN_UNANSWERED_ATTEMPTS = 2


def check_answers(run: RunState) -> None:
    """Handle every worker that has not reported in time, and end the run if no worker is active for too long."""
    if run.now >= run.next_check:
        return_withheld(run)
        for worker in list(run.workers.values()):
            if _due_at(run, worker) <= run.now:
                _overdue(run, worker)
        dues = [_due_at(run, worker) for worker in run.workers.values()]
        run.next_check = min([*dues, *(until for until, _, _ in run.withheld)], default=inf)
    if run.is_active:  # it was active up to now
        run.active_at = run.now
    elif run.items and run.fatal is None and run.now >= stalled_at(run):
        seconds = run.settings.stall_timeout_s
        run.fatal = (
            f"nothing has moved for {seconds:g} s (stall_timeout_s): no worker works, and none could be started.\n"
            f"{state_of(run)}"
        )


def note_activity(run: RunState) -> None:
    """Record whether any worker can make progress from now on."""
    if run.busy:
        run.is_active = True
    else:
        run.is_active = any(_is_active(run, worker) for worker in run.workers.values())


def stalled_at(run: RunState) -> float:
    """Return when the run ends as stalled, unless a worker becomes active before."""
    return max(run.worked_at, run.active_at) + run.settings.stall_timeout_s


def note_answer(run: RunState, worker_id: str, batch_id: int | None) -> None:
    """Record which batch a worker says it runs; any other than its assigned batch counts as no answer.

    The report of a batch that has just ended may still arrive. If it does not, the worker is replaced.
    """
    if batch_id is not None and running_batch(run, worker_id, batch_id) is not None:
        note_heard(run, run.workers[worker_id])


def _due_at(run: RunState, worker: WorkerState) -> float:
    """Return when a worker has to report next; infinite if it waits for the scheduler."""
    settings = run.settings
    if worker.status is Status.STOPPING or worker.overdue is not None:
        return worker.stopping_since + settings.stop_timeout_s
    if worker.status is Status.STARTING:
        if worker.placed_at is not None:
            return worker.placed_at + settings.start_timeout_s
        return worker.started_at + (place_timeout(run, run.pools[worker.pool]) or 0.0)
    if not worker.batches or worker.waits_for_credit:
        return inf
    if worker.asked_at is not None:
        return worker.asked_at + settings.answer_timeout_s
    return worker.heard_at + settings.stall_timeout_s


def _overdue(run: RunState, worker: WorkerState) -> None:
    pool, settings = run.pools[worker.pool], run.settings
    if worker.overdue is not None:  # it was killed for its batch, and has not reported since
        worker_gone(run, worker.id)
    elif worker.status is Status.STOPPING:
        if worker.is_killed:  # the backend does not report its end: its resources count as free
            worker_gone(run, worker.id)
            return
        worker.is_killed = True
        worker.stopping_since = run.now
        reason = f"did not stop within {settings.stop_timeout_s:g} s"
        run.actions.append(KillWorker(worker.id, reason))
    elif worker.status is Status.STARTING and worker.placed_at is None:
        worker.place_is_taken = True
        pool.unplaced += 1
        stop(run, worker)
        run.ask_for_plan(f"a worker of '{pool.spec.name}' found its place on node '{worker.placement.node}' taken")
    elif worker.status is Status.STARTING:
        reason = f"was not ready after start_timeout_s={settings.start_timeout_s:g}"
        kill(run, worker, reason)
        start_failed(run, worker, Death(reason))
        run.ask_for_plan(f"a worker of '{pool.spec.name}' was killed: it {reason}")
    elif worker.asked_at is None:
        worker.asked_at = run.now
        run.actions.append(AskWorker(worker.id, worker.batches[0].id))
    else:
        _replace_silent(run, worker)


def _replace_silent(run: RunState, worker: WorkerState) -> None:
    """Kill a worker that does not answer and requeue its batches; no row is given up for it."""
    pool, batch = run.pools[worker.pool], worker.batches[0]
    reason = f"took longer than {run.settings.answer_timeout_s:g} s to say whether it still works"
    batch.unanswered += 1
    requeue(run, kill(run, worker, reason))
    run.ask_for_plan(f"a worker of '{pool.spec.name}' was killed: it {reason}")
    if batch.unanswered >= max(_MIN_UNANSWERED_ATTEMPTS, run.settings.max_attempts) and run.fatal is None:
        run.fatal = (
            f"batch {batch.id} of '{pool.spec.name}' was given to {batch.unanswered} workers, one after the other, and "
            f"none of them answered (stall_timeout_s={run.settings.stall_timeout_s:g}); the last one was on node "
            f"'{worker.placement.node}'.\n{state_of(run)}"
        )


def _is_active(run: RunState, worker: WorkerState) -> bool:
    """Tell whether a worker without a batch can make progress; workers with a batch are counted already.

    A worker that is started and stopped without ever having work makes no progress.
    """
    if worker.status is Status.STARTING:
        return worker.placed_at is not None and is_runnable(run, run.pools[worker.pool], with_credit=False)
    return worker.status is Status.STOPPING and worker.tasks_done > 0
