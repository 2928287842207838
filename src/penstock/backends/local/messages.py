"""What the driver and a worker process say to each other. Small: data lies in shared memory, only its name travels."""

from __future__ import annotations

import pickle
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from penstock.core.counters import StageCounters
from penstock.core.rejection import Rejection
from penstock.runtime.transport import Stored
from penstock.schedule.actions import Selection


class Run(NamedTuple):
    """To a worker: run these stored tasks."""

    batch: int
    places: tuple[str | bytes, ...]
    credit: int
    already: frozenset[str]
    selections: tuple[Selection, ...]
    probe: bool
    # Store outputs on disk instead of in memory; no credit is needed then.
    spill: bool


class Grant(NamedTuple):
    """To a worker: store what you asked for; on disk if it may not be in memory."""

    size: int
    spill: bool = False


class Stop(NamedTuple):
    """To a worker: tear down and end."""


class Ready(NamedTuple):
    """From a worker: set up."""


class SetupFailed(NamedTuple):
    """From a worker: could not be set up."""

    reason: str


class Wants(NamedTuple):
    """From a worker: an output needs so many bytes more than were granted."""

    batch: int
    size: int


class Gives(NamedTuple):
    """From a worker: outputs that are stored now."""

    batch: int
    outputs: tuple[Stored, ...]


class Done(NamedTuple):
    """From a worker: a batch is finished; these are its last outputs."""

    batch: int
    outputs: tuple[Stored, ...]
    seconds: float
    resident_bytes: int
    counters: list[StageCounters]
    rejections: list[Rejection]


class Failed(NamedTuple):
    """From a worker: a stage refuses the whole batch, and would again."""

    batch: int
    reason: str
    counters: list[StageCounters]


ToWorker = Run | Grant | Stop
FromWorker = Ready | SetupFailed | Wants | Gives | Done | Failed


def send(connection: Connection, message: ToWorker | FromWorker) -> None:
    """Send a message; the plain pickler is faster than the one that could also pass on connections."""
    connection.send_bytes(pickle.dumps(message, protocol=5))


def receive(connection: Connection) -> Any:  # noqa: ANN401 - each side knows what the other says
    """Receive a message."""
    return pickle.loads(connection.recv_bytes())
