"""Machines that keep failing: given no more work, as long as others are there to do it.

A worker that dies says little about its machine: its batch may be to blame. Several batches whose workers were ended by
who knows whom, one after the other on one machine while nothing was finished there, do; and so does a stage that cannot
be set up there but was set up elsewhere.
"""

from __future__ import annotations

from penstock.schedule.state import Batch, RunState, WorkerState
from penstock.schedule.workforce import drain

# So many different batches, or failed set-ups, in a row.
_ENOUGH = 4
_ENOUGH_SETUPS = 2


def note_success(run: RunState, worker: WorkerState) -> None:
    """Note that something was finished on a machine."""
    run.blamed.pop(worker.placement.node, None)


def blame_node(run: RunState, worker: WorkerState, running: Batch | None, *, from_outside: bool) -> bool:
    """Note that a worker was lost on a machine; return True if the machine is given no more work for that."""
    node = worker.placement.node
    blamed = run.blamed.setdefault(node, set())
    if running is not None and from_outside:
        blamed.add(f"batch {running.id}")
    elif not worker.is_up and _is_up_elsewhere(run, worker):
        blamed.add(f"setup {worker.id}")
    else:
        return False
    setups = sum(what.startswith("setup") for what in blamed)
    if setups < _ENOUGH_SETUPS and len(blamed) < _ENOUGH:
        return False
    if not run.nodes.can_do_without(node, [pool.spec.need for pool in run.pools]):
        return False
    _quarantine(run, node)
    return True


def _is_up_elsewhere(run: RunState, worker: WorkerState) -> bool:
    pool = run.pools[worker.pool]
    return any(other.is_up and other.placement.node != worker.placement.node for other in pool.workers.values())


def _quarantine(run: RunState, node: str) -> None:
    run.quarantined.append(node)
    run.nodes.remove(node)
    for worker in [worker for worker in run.workers.values() if worker.placement.node == node]:
        drain(run, worker)
    run.ask_for_plan(f"node '{node}' keeps failing and is left out")
