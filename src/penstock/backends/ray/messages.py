"""What the driver and a worker actor say to each other: one call carries several orders, one answer several reports."""

from __future__ import annotations

from typing import NamedTuple

from penstock.backends.reports import Report
from penstock.schedule.actions import Selection

# A task inside the message itself; or in an argument of the call: which one, and where in it.
Where = bytes | tuple[int, int]


class Order(NamedTuple):
    """To a worker: run these tasks."""

    batch: int
    tasks: tuple[Where, ...]
    credit: int
    already: frozenset[str]
    selections: tuple[Selection, ...]
    probe: bool
    # Nobody counts what it gives: results, and what the object store may write to disk.
    free: bool


class Introduction(NamedTuple):
    """From a worker: who it is on its machine."""

    pid: int


class SetUp(NamedTuple):
    """From a worker: set up, or why not."""

    trouble: str | None


class KeptFailure(NamedTuple):
    """From a worker: what a stage failed on, for the driver to keep under this name."""

    name: str
    body: bytes


class Reports(NamedTuple):
    """From a worker: what became of its orders; tasks it stored are beside it, in the second result of the call."""

    reports: tuple[Report, ...]
    # Bytes of what lies beside.
    size: int
    # Whether it has more to do as soon as it is called again.
    goes_on: bool
    failures: tuple[KeptFailure, ...] = ()
