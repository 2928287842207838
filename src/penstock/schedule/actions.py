"""What the scheduler tells a backend to do."""

from __future__ import annotations

from typing import NamedTuple

from penstock.schedule.nodes import Placement


class Selection(NamedTuple):
    """Which rows of a batch to work on, counted at one step of the chain: a range to try, or rows to leave out."""

    step: int = 0
    start: int = 0
    stop: int | None = None
    without: tuple[int, ...] = ()
    # Why each of the rows in ``without`` is left out; the worker that runs the others writes that down.
    reasons: tuple[str, ...] = ()

    def left_out(self) -> dict[int, str]:
        """Return the rows to leave out, and why."""
        return dict(zip(self.without, self.reasons or [""] * len(self.without), strict=True))


class StartWorker(NamedTuple):
    """Start a worker of a pool at a place; answer with WorkerPlaced, then with WorkerReady or WorkerLost."""

    worker: str
    pool: int
    placement: Placement


class StopWorker(NamedTuple):
    """Let a worker without work tear down, or cancel its start if that has not begun; answer with WorkerGone."""

    worker: str


class KillWorker(NamedTuple):
    """End a worker at once, whatever it does; answer with WorkerGone.

    With ``wants_position`` its batch stays with it until it is gone: answer with WorkerLost and where in its chain it
    was, or with WorkerGone if that is not known.
    """

    worker: str
    reason: str
    wants_position: bool = False


class AskWorker(NamedTuple):
    """Find out whether a worker still works on a batch; answer with WorkerAnswered, or not at all if it does not."""

    worker: str
    batch: int


class RunBatch(NamedTuple):
    """Run some items through a worker's chain. It may store that many bytes of output without asking."""

    worker: str
    batch: int
    items: tuple[str, ...]
    credit: int
    # Outputs that an earlier attempt has given already: not to be given again.
    already: frozenset[str] = frozenset()
    selections: tuple[Selection, ...] = ()
    # A probe only finds out whether the selected rows can be processed; its outputs are thrown away.
    probe: bool = False
    # Outputs go to disk and take no credit.
    spill: bool = False
    # It was done before and is run once more for outputs that were lost: what it counts has been counted.
    again: bool = False
    # That it has ended must be told before the next one is begun: its time is taken, or others like it ended a worker.
    alone: bool = False


class GrantCredit(NamedTuple):
    """Let a waiting worker store the output it asked for."""

    worker: str
    batch: int
    size: int
    # It goes to disk: there is no room for it in memory, and nobody will make any. The size is 0 then.
    spill: bool = False


class DropItems(NamedTuple):
    """Items have been consumed: their storage is free."""

    items: tuple[str, ...]


class DeadLetter(NamedTuple):
    """Rows of a batch cannot be processed.

    Without ``rows`` the whole batch is given up and has to be written down. With ``rows`` the batch is run once more
    without them, and the worker that does so writes them down: only there are they known at a later step.
    """

    items: tuple[str, ...]
    pool: int
    error: str
    # At which step and which rows; None: the whole batch.
    step: int = 0
    rows: tuple[int, ...] | None = None


Action = StartWorker | StopWorker | KillWorker | AskWorker | RunBatch | GrantCredit | DropItems | DeadLetter
