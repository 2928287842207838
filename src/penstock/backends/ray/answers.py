"""Pass answers from Ray's threads to the driver's thread, in the order of arrival, with optional timeouts."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from penstock.schedule.events import Event

# Converts an answer, or the error in its place, to events.
AnswerHandler = Callable[[Any, BaseException | None], list[Event]]


class AnswerQueue:
    """Answers that have arrived and were not processed yet."""

    def __init__(self) -> None:
        self._arrived: SimpleQueue[Callable[[], list[Event]]] = SimpleQueue()
        # Answers with a timeout: the deadline, a unique number, and the handler of the timeout.
        self._awaited: list[tuple[float, int, Callable[[], list[Event]]]] = []
        self._count = itertools.count()

    def listen(self, reference: Any, handle: AnswerHandler, *, within_s: float | None = None) -> None:  # noqa: ANN401 - Ray's
        """Call a handler when an answer arrives; after ``within_s`` seconds, with a ``TimeoutError`` instead."""
        is_taken = False

        def take(answer: Any, error: BaseException | None) -> list[Event]:  # noqa: ANN401
            nonlocal is_taken
            if is_taken:
                return []
            is_taken = True
            return handle(answer, error)

        def arrived(future: Any) -> None:  # noqa: ANN401 - of Ray's making
            error = future.exception()
            answer = None if error is not None else future.result()
            self._arrived.put(lambda: take(answer, error))

        if within_s is not None:
            late = TimeoutError(f"no answer within {within_s:g} s")
            heapq.heappush(self._awaited, (time.monotonic() + within_s, next(self._count), lambda: take(None, late)))
        reference.future().add_done_callback(arrived)

    def tell(self, *events: Event) -> None:
        """Add events; may be called from any thread, and from a signal handler."""
        self._arrived.put(lambda: list(events))

    def take(self, timeout: float) -> list[Event]:
        """Wait up to ``timeout`` seconds for an answer, and return the events of all answers that have arrived."""
        if self._awaited:
            timeout = min(timeout, self._awaited[0][0] - time.monotonic())
        events: list[Event] = []
        with suppress(Empty):
            make_events = self._arrived.get(timeout=timeout) if timeout > 0 else self._arrived.get_nowait()
            while True:
                events += make_events()
                make_events = self._arrived.get_nowait()
        while self._awaited and self._awaited[0][0] <= time.monotonic():
            events += heapq.heappop(self._awaited)[2]()
        return events
