"""What a backend tells the scheduler. Every event is a fact that has happened."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.cluster import Node


class Output(NamedTuple):
    """One item a batch gave: who it is, how large, and how many rows it could be cut into."""

    id: str
    order: tuple[int, ...]
    size: int
    rows: int = 1


class WorkerPlaced(NamedTuple):
    """A worker has the resources of its place, and its process runs; its setup has begun."""

    worker: str


class WorkerReady(NamedTuple):
    """A worker has been set up and can take work."""

    worker: str


class WorkerGone(NamedTuple):
    """A worker that was told to stop has stopped; its resources are free."""

    worker: str


class WorkerLost(NamedTuple):
    """A worker has died without being told to, or could not be set up."""

    worker: str
    reason: str
    # Where it was, if it could still say: the step of its chain, and the number of rows there.
    step: int | None = None
    rows: int = 0
    # Whether somebody else may have ended it, so that what it ran need not be to blame.
    from_outside: bool = False


class WorkerAnswered(NamedTuple):
    """A worker that was asked is alive, and works on this batch at the moment; None: on no batch."""

    worker: str
    batch: int | None


class CreditWanted(NamedTuple):
    """A worker has an output to store that its credit does not cover, and waits."""

    worker: str
    batch: int
    size: int


class Emitted(NamedTuple):
    """A worker has stored outputs of a batch; more may follow."""

    worker: str
    batch: int
    outputs: tuple[Output, ...]


class BatchDone(NamedTuple):
    """A worker has finished a batch; all its outputs have been emitted before."""

    worker: str
    batch: int
    seconds: float
    resident_bytes: int = 0


class BatchFailed(NamedTuple):
    """A stage refused a batch in a way that trying again cannot mend."""

    worker: str
    batch: int
    error: str
    # Whether it would be no use to go on with others.
    stops_run: bool = False


class InputsLost(NamedTuple):
    """A batch could not begin: some of its items are gone from where they were stored."""

    worker: str
    batch: int
    items: tuple[str, ...]


class ItemsLost(NamedTuple):
    """Stored items that nobody works on are gone, with the machine they lay on."""

    items: tuple[str, ...]


class NodeAdded(NamedTuple):
    """A machine has joined."""

    node: Node


class NodeLost(NamedTuple):
    """A machine is gone, with everything on it."""

    name: str


class Tick(NamedTuple):
    """Nothing but time has passed."""


class StopAsked(NamedTuple):
    """The user wants to stop: no new sources, finish what runs."""


Event = (
    WorkerPlaced
    | WorkerReady
    | WorkerGone
    | WorkerLost
    | WorkerAnswered
    | CreditWanted
    | Emitted
    | BatchDone
    | BatchFailed
    | InputsLost
    | ItemsLost
    | NodeAdded
    | NodeLost
    | Tick
    | StopAsked
)
