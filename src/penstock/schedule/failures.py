"""Handle failed work: retry it, search for the rows that cause the failure, or give it up with a dead letter.

Only the batch that a lost worker was running is suspect. Batches that waited for it, batches on a lost node, and
batches stopped by the scheduler return to the queue without a failed attempt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from penstock.schedule.actions import DeadLetter, Selection
from penstock.schedule.clock import take_overdue
from penstock.schedule.items import close, release_credit, running_batch
from penstock.schedule.quarantine import blame_node
from penstock.schedule.recovery import Recovery
from penstock.schedule.regeneration import hold
from penstock.schedule.state import Batch, RunState, Status, WorkerState
from penstock.schedule.suspicion import attempts_needed
from penstock.schedule.workforce import end_batch, kill_overdue_worker, remove

# How often a batch may fail as a whole although each of its rows passes alone.
_MAX_FRUITLESS_SEARCHES = 2
# Every attempt at a batch that hangs takes the whole time limit: after this many attempts its rows are searched.
_MAX_HANGING_ATTEMPTS = 2


class Death(NamedTuple):
    """How a worker ended, and its position in the chain, if known."""

    reason: str
    step: int | None = None
    rows: int = 0
    from_outside: bool = False
    timed_out: bool = False


def worker_gone(run: RunState, worker_id: str) -> None:
    """Handle a worker that has ended as told; if it was killed for its batch, the position is unknown."""
    worker = remove(run, worker_id)
    if worker is None:
        return
    if worker.overdue is not None:
        _overdue_gone(run, worker, Death(worker.overdue[1]))
    requeue(run, worker.batches)


def worker_lost(run: RunState, worker_id: str, death: Death) -> None:
    """Handle a worker that died: its running batch is suspect, and its pool needs another worker."""
    worker = remove(run, worker_id)
    if worker is None:
        return
    if worker.overdue is not None:
        _overdue_gone(run, worker, death)
        requeue(run, worker.batches)
        return
    running = worker.batches.popleft() if worker.batches else None
    run.pools[worker.pool].has_lost_workers |= running is not None
    if worker.status is Status.STARTING:
        start_failed(run, worker, death)
    else:
        blame_node(run, worker, running, from_outside=death.from_outside)
    requeue(run, worker.batches)
    if running is not None:
        _attempt_failed(run, running, death)
    if worker.is_staff:
        run.ask_for_plan(f"a worker of '{run.pools[worker.pool].spec.name}' was lost")


def start_failed(run: RunState, worker: WorkerState, death: Death) -> None:
    """Handle a worker that did not become ready: its node is faulty, or its stages cannot be set up."""
    if not blame_node(run, worker, None, from_outside=death.from_outside):
        _setup_failed(run, worker, death)


def node_lost(run: RunState, name: str) -> None:
    """Handle the loss of a node with all its workers; no batch counts a failed attempt."""
    run.nodes.remove(name)
    for worker in [worker for worker in run.workers.values() if worker.placement.node == name]:
        remove(run, worker.id)
        requeue(run, worker.batches)
    run.ask_for_plan(f"node '{name}' was lost")


def inputs_lost(run: RunState, worker_id: str, batch_id: int, items: Sequence[str]) -> None:
    """Handle a batch that could not begin because some of its items are lost; no attempt is counted."""
    batch = running_batch(run, worker_id, batch_id)
    if batch is None:
        return
    end_batch(run, run.workers[worker_id])
    release_credit(run, batch)
    hold(run, batch, items)


def batch_failed(run: RunState, worker_id: str, batch_id: int, error: str, *, stops_run: bool = False) -> None:
    """Handle an error that a retry cannot fix: find the tasks of the batch that cause it, and give up only those.

    With ``stops_run`` no task is given up, and the run ends.
    """
    batch = running_batch(run, worker_id, batch_id)
    if batch is None:
        return
    end_batch(run, run.workers[worker_id])
    release_credit(run, batch)
    if stops_run:
        run.fatal = run.fatal or error
        _queue_again(run, batch)
    elif batch.recovery is not None:
        batch.recovery.failed(error, for_sure=True)
        search_on(run, batch)
    elif len(batch.items) > 1 and not batch.selections:
        cuts = tuple(accumulate(item.rows for item in batch.items))
        batch.recovery = Recovery(0, batch.rows, run.settings.max_attempts, error=error, cuts=cuts)
        search_on(run, batch)
    else:
        _condemn(run, batch, error)


def kill_overdue(run: RunState) -> None:
    """Kill workers whose batch is past its deadline; the batch is handled when the worker has ended."""
    for worker in take_overdue(run):
        if worker.status is Status.STOPPING or worker.overdue is not None:
            continue
        reason = f"took longer than task_timeout_s={run.pools[worker.pool].spec.timeout_s:g}"
        kill_overdue_worker(run, worker, reason)
        run.ask_for_plan(f"a worker of '{run.pools[worker.pool].spec.name}' was killed: it {reason}")


def _overdue_gone(run: RunState, worker: WorkerState, death: Death) -> None:
    """Count the overdue attempt as failed, unless its result arrived before the worker ended."""
    assert worker.overdue is not None
    batch_id, reason = worker.overdue
    run.pools[worker.pool].has_lost_workers = True
    if worker.batches and worker.batches[0].id == batch_id:
        _attempt_failed(run, worker.batches.popleft(), death._replace(reason=reason, timed_out=True))


def search_on(run: RunState, batch: Batch) -> None:
    """Continue the search inside a batch, or end it and run the batch without the rows found."""
    recovery = batch.recovery
    assert recovery is not None
    if recovery.is_hopeless:
        recovery.give_up()
    probe = recovery.next_probe()
    if probe is not None:
        batch.selections = (*recovery.before, probe)
        _queue_again(run, batch)
        return
    batch.recovery = None
    batch.attempts = batch.attempts_that_hung = 0
    batch.selections = recovery.verdict()
    batch.fruitless_searches += not recovery.bad
    if recovery.bad:
        _note_bad_rows(run, batch, recovery.step, tuple(sorted(recovery.bad)), recovery.error)
    run.pools[batch.pool].retries.append(batch)


def _note_bad_rows(run: RunState, batch: Batch, step: int, rows: tuple[int, ...], error: str) -> None:
    """Report rows that cannot be processed; the worker that runs the other rows writes the dead letters."""
    run.dead += len(rows)
    run.actions.append(DeadLetter(tuple(item.key for item in batch.items), batch.pool, error, step, rows))


def _attempt_failed(run: RunState, batch: Batch, death: Death) -> None:
    """Retry a batch; after enough attempts, search for the rows that cannot be processed."""
    release_credit(run, batch)
    pool = run.pools[batch.pool]
    enough = max_attempts = run.settings.max_attempts
    if death.from_outside:
        batch.unexplained_deaths += 1
        pool.unexplained_deaths += 1
        elsewhere = pool.unexplained_deaths - batch.unexplained_deaths
        enough = attempts_needed(max_attempts, elsewhere, pool.survived)
    if batch.recovery is not None:
        batch.recovery.failed(death.reason, enough=enough, try_again=death.from_outside)
        search_on(run, batch)
        return
    batch.attempts += 1
    batch.attempts_that_hung += death.timed_out
    at = death.step or 0
    rows = batch.rows_at[at] = max(batch.rows_at.get(at, 0), death.rows or batch.rows)
    can_be_searched = rows > 1 and batch.fruitless_searches < _MAX_FRUITLESS_SEARCHES
    as_a_whole = min(max_attempts, _MAX_HANGING_ATTEMPTS) if death.timed_out and can_be_searched else max_attempts
    if batch.attempts < as_a_whole:
        _queue_again(run, batch)
    elif can_be_searched:
        batch.recovery = Recovery(
            at,
            rows,
            # The attempts that hung as a whole count for a row that hangs alone.
            max(1, max_attempts - batch.attempts_that_hung) if death.timed_out else max_attempts,
            tuple(selection for selection in batch.selections if selection.step != at),
            error=death.reason,
            known=_left_out(batch, at),
            is_certain=not death.from_outside,
        )
        search_on(run, batch)
    elif batch.attempts < enough:
        _queue_again(run, batch)
    else:
        _leave_all_out(run, batch, at if death.step is not None else None, rows, death.reason)


def _left_out(batch: Batch, step: int) -> dict[int, str]:
    """Return the rows already left out at a step, with the reasons."""
    known = [selection for selection in batch.selections if selection.step == step]
    return known[0].left_out() if known else {}


def _leave_all_out(run: RunState, batch: Batch, step: int | None, rows: int, error: str) -> None:
    """Give up all rows that reached a step of the chain, and run the batch without them.

    If the step is unknown, or these rows were left out there before, the whole batch is given up.
    """
    known = _left_out(batch, step) if step is not None else {}
    bad = {row: error for row in range(rows) if row not in known}
    if step is None or not bad:
        _condemn(run, batch, error)
        return
    left_out = dict(sorted({**known, **bad}.items()))
    others = tuple(selection for selection in batch.selections if selection.step != step)
    batch.selections = (*others, Selection(step, without=tuple(left_out), reasons=tuple(left_out.values())))
    batch.attempts = batch.attempts_that_hung = 0
    _note_bad_rows(run, batch, step, tuple(bad), error)
    run.pools[batch.pool].retries.append(batch)


def _queue_again(run: RunState, batch: Batch) -> None:
    """Queue a batch for a retry, alternately at the front and at the end of the retry queue.

    Workers may be killed from outside at regular intervals; a batch with a fixed position could be hit every time.
    """
    retries = run.pools[batch.pool].retries
    if batch.unexplained_deaths % 2:
        retries.appendleft(batch)
    else:
        retries.append(batch)


def _condemn(run: RunState, batch: Batch, error: str) -> None:
    """Give up a whole batch."""
    keys = tuple(item.key for item in batch.items)
    run.dead += batch.rows
    run.actions.append(DeadLetter(keys, batch.pool, error))
    batch.recovery = None
    close(run, batch)


def requeue(run: RunState, batches: deque[Batch]) -> None:
    """Return batches without a failed attempt to the front of the retry queue, in their order."""
    for batch in reversed(batches):
        release_credit(run, batch)
        run.pools[batch.pool].retries.appendleft(batch)


def _setup_failed(run: RunState, worker: WorkerState, death: Death) -> None:
    """Count a failed setup: a pool that never gets a worker ends the run; one that has workers keeps those only."""
    pool = run.pools[worker.pool]
    pool.setup_failures += 1
    max_attempts = run.settings.max_attempts
    pool.unexplained_deaths += death.from_outside
    enough = attempts_needed(max_attempts, pool.unexplained_deaths, pool.survived)
    enough = enough if death.from_outside else max_attempts
    if pool.setup_failures < enough:
        return
    if any(other.is_up for other in pool.workers.values()):
        pool.ceiling = max(1, pool.staffed - pool.starting)
        pool.setup_failures = 0
    elif not pool.starting or pool.setup_failures >= 2 * enough:  # more workers may be starting all the time
        run.fatal = run.fatal or f"workers of pool '{pool.spec.name}' cannot be set up: {death.reason}"
