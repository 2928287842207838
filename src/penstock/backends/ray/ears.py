"""Answers pass from Ray's threads to the driver's own here, in the order in which they come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from penstock.schedule.events import Event

# What an answer means: it, or the error that came in its place, as events.
Meaning = Callable[[Any, BaseException | None], list[Event]]


class Ears:
    """What was heard and not yet taken in."""

    def __init__(self) -> None:
        self._heard: SimpleQueue[Callable[[], list[Event]]] = SimpleQueue()

    def listen(self, reference: Any, meaning: Meaning) -> None:  # noqa: ANN401 - a reference of Ray's
        """Have an answer taken in when it comes."""

        def heard(future: Any) -> None:  # noqa: ANN401 - of Ray's making
            error = future.exception()
            answer = None if error is not None else future.result()
            self._heard.put(lambda: meaning(answer, error))

        reference.future().add_done_callback(heard)

    def tell(self, *events: Event) -> None:
        """Say something that happened here; from any thread, and from a signal handler."""
        self._heard.put(lambda: list(events))

    def take(self, timeout: float) -> list[Event]:
        """Return what all that was heard means, waiting for the first of it as long as that."""
        events: list[Event] = []
        with suppress(Empty):
            meant = self._heard.get(timeout=timeout) if timeout > 0 else self._heard.get_nowait()
            while True:
                events += meant()
                meant = self._heard.get_nowait()
        return events
