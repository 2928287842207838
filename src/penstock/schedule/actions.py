"""Actions: what the scheduler tells a backend to do."""

from __future__ import annotations

from typing import NamedTuple

from penstock.schedule.nodes import Placement


class Selection(NamedTuple):
    """The rows of a batch to process, counted at one step of the chain: a range to try, or rows to leave out."""

    step: int = 0
    start: int = 0
    stop: int | None = None
    without: tuple[int, ...] = ()
    # Why each of the rows in ``without`` is left out; the worker that runs the others writes the dead letters.
    reasons: tuple[str, ...] = ()

    def left_out(self) -> dict[int, str]:
        """Return the rows to leave out, with the reason for each."""
        return dict(zip(self.without, self.reasons or [""] * len(self.without), strict=True))


class StartWorker(NamedTuple):
    """Start a worker of a pool on a node; answer with WorkerPlaced, then with WorkerReady or WorkerLost."""

    worker: str
    pool: int
    placement: Placement


class StopWorker(NamedTuple):
    """Let an idle worker tear down, or cancel a start that has not begun; answer with WorkerGone."""

    worker: str


class KillWorker(NamedTuple):
    """Kill a worker at once; answer with WorkerGone.

    With ``wants_position`` the worker keeps its batch until it has ended: answer with WorkerLost and its position in
    the chain, or with WorkerGone if the position is unknown.
    """

    worker: str
    reason: str
    wants_position: bool = False


class AskWorker(NamedTuple):
    """Ask whether a worker still runs a batch; answer with WorkerAnswered if it replies."""

    worker: str
    batch: int


class RunBatch(NamedTuple):
    """Run items through a worker's chain. It may store ``credit`` bytes of output without a request."""

    worker: str
    batch: int
    items: tuple[str, ...]
    credit: int
    # Outputs that an earlier attempt has emitted: they are not emitted again.
    already: frozenset[str] = frozenset()
    selections: tuple[Selection, ...] = ()
    # A probe only tests whether the selected rows can be processed; its outputs are discarded.
    probe: bool = False
    # Outputs go to disk and take no credit.
    spill: bool = False
    # The batch was done before and is run again for lost outputs: its counters are not added again.
    again: bool = False
    # Its end must be reported before the next batch begins, because it has a time limit or its pool has lost workers.
    alone: bool = False


class GrantCredit(NamedTuple):
    """Let a waiting worker store the output it asked for."""

    worker: str
    batch: int
    size: int
    # The output is written to disk, because the memory budget has no room and none will become free. The size is 0.
    spill: bool = False


class DropItems(NamedTuple):
    """Free the storage of items that have been consumed."""

    items: tuple[str, ...]


class DeadLetter(NamedTuple):
    """Report rows of a batch that cannot be processed.

    Without ``rows`` the whole batch is given up, and the backend writes the dead letters. With ``rows`` the batch is
    run again without them, and the worker that runs it writes the dead letters: only it has the rows at a later step.
    """

    items: tuple[str, ...]
    pool: int
    error: str
    # The step and the rows; None: the whole batch.
    step: int = 0
    rows: tuple[int, ...] | None = None


Action = StartWorker | StopWorker | KillWorker | AskWorker | RunBatch | GrantCredit | DropItems | DeadLetter
