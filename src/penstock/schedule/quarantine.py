"""Quarantine nodes that keep failing, as long as the other nodes can do the work.

A single dead worker says little about its node: its batch may be the cause. A node is faulty if the workers of several
batches in a row were killed there for an unknown reason while no batch was finished, or if a stage cannot be set up
there but was set up on another node.
"""

from __future__ import annotations

from penstock.schedule.state import Batch, RunState, WorkerState
from penstock.schedule.workforce import drain

# A node is quarantined after this many different batches or failed setups in a row, or this many failed setups alone.
_MAX_FAILURES = 4
_MAX_FAILED_SETUPS = 2


def note_success(run: RunState, worker: WorkerState) -> None:
    """Reset the failures of a node after a finished batch."""
    run.blamed.pop(worker.placement.node, None)


def blame_node(run: RunState, worker: WorkerState, running: Batch | None, *, from_outside: bool) -> bool:
    """Count a lost worker against its node; return True if the node is quarantined for it."""
    node = worker.placement.node
    blamed = run.blamed.setdefault(node, set())
    if running is not None and from_outside:
        blamed.add(f"batch {running.id}")
    elif not worker.is_up and _is_up_elsewhere(run, worker):
        blamed.add(f"setup {worker.id}")
    else:
        return False
    setups = sum(what.startswith("setup") for what in blamed)
    if setups < _MAX_FAILED_SETUPS and len(blamed) < _MAX_FAILURES:
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
