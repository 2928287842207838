"""What a backend has to offer: a clock, hands and ears. Nothing else is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
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
