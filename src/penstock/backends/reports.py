"""Reports of a worker about its batches, in any backend: credit needed, outputs stored, done, failed."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.counters import StageCounters
from penstock.core.rejection import Rejection
from penstock.runtime.transport import StoredTask


class Wants(NamedTuple):
    """An output needs ``size`` bytes more than were granted."""

    batch: int
    size: int


class Gives(NamedTuple):
    """Outputs that have been stored."""

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
    """A stage failed on the whole batch, and a retry would fail too."""

    batch: int
    reason: str
    counters: list[StageCounters]
    # Whether every other batch would fail too, such as when the disk is full.
    stops_run: bool = False


Report = Wants | Gives | Done | Failed
