"""Messages between the driver and a worker actor: one call carries several orders, one answer several reports."""

from __future__ import annotations

from typing import NamedTuple

from penstock.backends.reports import Report
from penstock.schedule.actions import Selection

# A task inside the message; or the number of a call argument, and the index of the task in it.
Where = bytes | tuple[int, int]


class Order(NamedTuple):
    """To a worker: run these tasks."""

    batch: int
    tasks: tuple[Where, ...]
    credit: int
    already: frozenset[str]
    selections: tuple[Selection, ...]
    probe: bool
    # Whether its outputs need no credit: results, and outputs that the object store may spill.
    free: bool


class Introduction(NamedTuple):
    """From a worker: its process id."""

    pid: int


class SetUp(NamedTuple):
    """From a worker: setup is complete, or the error."""

    trouble: str | None


class KeptFailure(NamedTuple):
    """From a worker: a failure that the driver stores under this name."""

    name: str
    body: bytes


class Reports(NamedTuple):
    """From a worker: the reports on its orders; the stored tasks are in the second result of the call."""

    reports: tuple[Report, ...]
    # The bytes of the stored tasks.
    size: int
    # Whether it has unfinished work and needs to be called again.
    goes_on: bool
    failures: tuple[KeptFailure, ...] = ()
