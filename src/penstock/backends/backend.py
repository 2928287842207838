"""Interfaces of a backend and of the place where a run happens, and the loop that drives a scheduler."""

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
    """Carry out the actions of the scheduler, and report events."""

    def now(self) -> float:
        """Return the time in seconds, from an arbitrary start."""
        ...

    def carry_out(self, action: Action) -> None:
        """Perform an action, or start it, without waiting for its end."""
        ...

    def wait(self, until: float) -> Sequence[Event]:
        """Wait for events and return them; return none if ``until`` comes first."""
        ...


class RunBackend(Backend, Protocol):
    """A backend that processes real tasks for an executor."""

    @property
    def peak_resident(self) -> int:
        """The peak memory of all workers together, in bytes."""
        ...

    def put(self, key: str, task: Task[Any]) -> StoredTask:
        """Store an initial task."""
        ...

    def ask_to_stop(self) -> None:
        """Request a stop; may be called from a signal handler."""
        ...

    def wake_on(self, descriptor: int) -> None:
        """End a wait when something arrives at this descriptor, such as a signal."""
        ...

    def close(self) -> None:
        """End all workers, and release everything that the run uses."""
        ...


class Venue(Protocol):
    """Where a run takes place: this machine, or a cluster."""

    cluster: Cluster
    # The time for a message to a worker and its answer.
    round_trip_s: float
    # Whether other jobs may use the resources before a worker gets them.
    has_others: bool

    def free(self, plan: Plan, say: Callable[[str], None]) -> Cluster:
        """Return the resources that other jobs leave free; wait, with a message, until they are enough to start."""
        ...

    def installs_for(self, pool: Pool) -> bool:
        """Tell whether an environment must be installed before a worker of a pool can start."""
        ...

    def budget(self, asked: int | None) -> int:
        """Return the maximum number of bytes stored between stages: as requested, or a default."""
        ...

    def backend(
        self, plan: Plan, record: RunRecord, *, max_attempts: int, spill_dir: str | None, ledger: KeptLedger | None
    ) -> RunBackend:
        """Return a backend that runs the plan."""
        ...

    def close(self) -> None:
        """Disconnect, and release everything that the run uses."""
        ...


def drive(
    scheduler: Scheduler,
    backend: Backend,
    first_actions: Sequence[Action],
    *,
    look: Callable[[float], None] | None = None,
    look_every: float = inf,
) -> None:
    """Pass events to the scheduler and its actions to the backend, until the scheduler is finished.

    ``look`` is called with the time every ``look_every`` seconds, with or without events.
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
