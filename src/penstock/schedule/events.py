"""Events: what a backend reports to the scheduler."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.cluster import Node


class Output(NamedTuple):
    """One output item of a batch: its id, position, size in bytes, and the number of rows it can be cut into."""

    id: str
    order: tuple[int, ...]
    size: int
    rows: int = 1


class WorkerPlaced(NamedTuple):
    """A worker has its resources, its process runs, and its setup has begun."""

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
    # Its position, if known: the step of its chain, and the number of rows there.
    step: int | None = None
    rows: int = 0
    # Whether it may have been killed from outside, so that its batch need not be the cause.
    from_outside: bool = False


class WorkerAnswered(NamedTuple):
    """A worker has answered that it is alive and runs this batch; None: it runs no batch."""

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
    """A stage failed on a batch in a way that a retry cannot fix."""

    worker: str
    batch: int
    error: str
    # Whether the whole run ends because of it.
    stops_run: bool = False


class InputsLost(NamedTuple):
    """A batch could not begin, because some of its stored items are lost."""

    worker: str
    batch: int
    items: tuple[str, ...]


class ItemsLost(NamedTuple):
    """Stored items that no worker is processing were lost with the node that stored them."""

    items: tuple[str, ...]


class NodeAdded(NamedTuple):
    """A node has joined."""

    node: Node


class NodeLost(NamedTuple):
    """A node is lost, with all its workers and stored items."""

    name: str


class Tick(NamedTuple):
    """Only time has passed."""


class StopAsked(NamedTuple):
    """The user asks to stop: begin no new sources, and finish what is running."""


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
