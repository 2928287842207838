"""Answers pass from Ray's threads to the driver's own here, in the order in which they come, or as late ones."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from penstock.schedule.events import Event

# What an answer means: it, or the error that came in its place, as events.
Meaning = Callable[[Any, BaseException | None], list[Event]]


class AnswerQueue:
    """What was heard and not yet taken in."""

    def __init__(self) -> None:
        self._heard: SimpleQueue[Callable[[], list[Event]]] = SimpleQueue()
        # Answers that have to come in time: until when, a number that tells them apart, what it means if they do not.
        self._awaited: list[tuple[float, int, Callable[[], list[Event]]]] = []
        self._count = itertools.count()

    def listen(self, reference: Any, meaning: Meaning, *, within_s: float | None = None) -> None:  # noqa: ANN401 - Ray's
        """Have an answer taken in when it comes; if it does not come within that time, a ``TimeoutError`` instead."""
        is_taken = False

        def take(answer: Any, error: BaseException | None) -> list[Event]:  # noqa: ANN401
            nonlocal is_taken
            if is_taken:
                return []
            is_taken = True
            return meaning(answer, error)

        def heard(future: Any) -> None:  # noqa: ANN401 - of Ray's making
            error = future.exception()
            answer = None if error is not None else future.result()
            self._heard.put(lambda: take(answer, error))

        if within_s is not None:
            late = TimeoutError(f"no answer within {within_s:g} s")
            heapq.heappush(self._awaited, (time.monotonic() + within_s, next(self._count), lambda: take(None, late)))
        reference.future().add_done_callback(heard)

    def tell(self, *events: Event) -> None:
        """Say something that happened here; from any thread, and from a signal handler."""
        self._heard.put(lambda: list(events))

    def take(self, timeout: float) -> list[Event]:
        """Return what all that was heard means, waiting for the first of it as long as that."""
        if self._awaited:
            timeout = min(timeout, self._awaited[0][0] - time.monotonic())
        events: list[Event] = []
        with suppress(Empty):
            meant = self._heard.get(timeout=timeout) if timeout > 0 else self._heard.get_nowait()
            while True:
                events += meant()
                meant = self._heard.get_nowait()
        while self._awaited and self._awaited[0][0] <= time.monotonic():
            events += heapq.heappop(self._awaited)[2]()
        return events
