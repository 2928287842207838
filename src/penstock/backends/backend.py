"""What a backend has to offer: a clock, hands and ears. Nothing else is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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


def drive(scheduler: Scheduler, backend: Backend, first_actions: Sequence[Action]) -> None:
    """Run until the scheduler says that it is finished: events in, actions out."""
    actions = first_actions
    while True:
        for action in actions:
            backend.carry_out(action)
        if scheduler.finished:
            return
        events = backend.wait(scheduler.wake_at())
        actions = scheduler.handle(backend.now(), *(events or [Tick()]))
