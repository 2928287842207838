"""What a backend has to offer: a clock, hands and ears. Nothing else is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Protocol

from penstock.core.cluster import Cluster
from penstock.core.task import Task
from penstock.ledger.record.run_ledger import KeptLedger
from penstock.plan.plan import Plan, Pool
from penstock.runtime.run_record import RunRecord
from penstock.runtime.transport import StoredTask
from penstock.schedule.actions import Action
from penstock.schedule.events import Event, Tick
from penstock.schedule.scheduler import Scheduler


class Backend(Protocol):
    """Carries out what the scheduler says, and reports what happens."""

    def now(self) -> float:
        """Return the time in seconds, from any beginning."""
        ...

    def carry_out(self, action: Action) -> None:
        """Do it, or begin to do it; never wait for it."""
        ...

    def wait(self, until: float) -> Sequence[Event]:
        """Return what has happened, as soon as something has; nothing, if that time comes first."""
        ...


class RunBackend(Backend, Protocol):
    """What an executor asks of a backend beyond that, for a run whose tasks are real."""

    @property
    def peak_resident(self) -> int:
        """The most memory all workers together were seen to use."""
        ...

    def put(self, key: str, task: Task[Any]) -> StoredTask:
        """Store a task that the run begins with."""
        ...

    def ask_to_stop(self) -> None:
        """Note that the user wants to stop; may be called from a signal handler."""
        ...

    def wake_on(self, descriptor: int) -> None:
        """End a wait when something arrives at this descriptor, such as a signal."""
        ...

    def close(self) -> None:
        """End everything that is still there, and leave nothing behind."""
        ...


class Venue(Protocol):
    """Where a run takes place: this machine, or a cluster."""

    cluster: Cluster
    # How long a message to a worker and back takes.
    round_trip_s: float
    # Whether other jobs may take a place before a worker gets it.
    has_others: bool

    def free(self, plan: Plan, say: Callable[[str], None]) -> Cluster:
        """Return what of the cluster others leave to a run; wait, and say so, while that is not enough to begin."""
        ...

    def installs_for(self, pool: Pool) -> bool:
        """Tell whether an environment has to be installed before a worker of a pool can begin."""
        ...

    def budget(self, asked: int | None) -> int:
        """Return how many bytes may lie between stages: as asked, or what is reasonable here."""
        ...

    def backend(
        self, plan: Plan, books: RunRecord, *, max_attempts: int, spill_dir: str | None, ledger: KeptLedger | None
    ) -> RunBackend:
        """Make ready to run a plan."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


def drive(
    scheduler: Scheduler,
    backend: Backend,
    first_actions: Sequence[Action],
    *,
    look: Callable[[float], None] | None = None,
    look_every: float = inf,
) -> None:
    """Run until the scheduler says that it is finished: events in, actions out.

    Somebody who wants to watch is called with the time, so many seconds apart, whether something happens or not.
    """
    actions = first_actions
    next_look = -inf
    while True:
        for action in actions:
            backend.carry_out(action)
        if look is not None and backend.now() >= next_look:
            next_look = backend.now() + look_every
            look(backend.now())
        if scheduler.finished:
            return
        events = backend.wait(min(scheduler.wake_at(), next_look) if look is not None else scheduler.wake_at())
        actions = scheduler.handle(backend.now(), *(events or [Tick()]))
