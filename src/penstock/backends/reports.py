"""What a worker says of its batches, in any backend: it needs room, it has given something, it is done, it failed."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.counters import StageCounters
from penstock.core.rejection import Rejection
from penstock.runtime.transport import StoredTask


class Wants(NamedTuple):
    """An output needs so many bytes more than were granted."""

    batch: int
    size: int


class Gives(NamedTuple):
    """Outputs that are stored now."""

    batch: int
    outputs: tuple[StoredTask, ...]


class Done(NamedTuple):
    """A batch is finished; these are its last outputs."""

    batch: int
    outputs: tuple[StoredTask, ...]
    seconds: float
    resident_bytes: int
    counters: list[StageCounters]
    rejections: list[Rejection]


class Failed(NamedTuple):
    """A stage refuses the whole batch, and would again."""

    batch: int
    reason: str
    counters: list[StageCounters]
    # Whether any other batch would fare no better: there is no disk left to write to.
    stops_run: bool = False


Report = Wants | Gives | Done | Failed
