"""Handle Ctrl-C, SIGTERM and SIGHUP during a run: finish running tasks, then end.

Ctrl-C comes from a person, who can press it again. SIGTERM comes from a batch scheduler, a container or ``kill`` and is
followed by SIGKILL some seconds later, and SIGHUP from a terminal that was closed: for these the time to finish is
bounded. How a run ends follows from the signal: KeyboardInterrupt, or ``Terminated``, a SystemExit with the code 143 or
129. Signals that the process ignores, such as SIGHUP under ``nohup``, remain ignored.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from penstock.errors import Terminated
from penstock.monitor.console import say_on_stderr

# Less than the ten seconds that Docker waits for a container, so that there is time to clean up.
GRACE_S = 5.0


class StopSignals:
    """Handle the signals that stop a run, from its start to its end; only in the main thread.

    A signal raises an exception at once, except inside ``asking``, where it becomes a request to stop, and inside
    ``held``, where it is deferred. A deferred signal is raised at the end.
    """

    def __init__(self) -> None:
        self._old: dict[int, Any] = {}
        # Called on the first signal; None: raise.
        self._on_first: Callable[[], None] | None = None
        self._received: int | None = None
        self._is_overdue = False
        self._timer: threading.Timer | None = None

    def __enter__(self) -> StopSignals:
        """Install the signal handlers."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                old = signal.getsignal(number)
                # None: a handler that was not installed from Python could not be restored.
                if old is not None and (number == signal.SIGINT or old is not signal.SIG_IGN):
                    self._old[number] = old
            self._take()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Restore the old handlers; raise a deferred signal, unless another exception is raised already."""
        if self._timer is not None:
            self._timer.cancel()
        for number, old in self._old.items():
            signal.signal(number, old)
        if error is None and self._received is not None:
            raise self.exception()

    @contextmanager
    def asking(self, ask_to_stop: Callable[[], None], wake_on: Callable[[int], None]) -> Iterator[None]:
        """Turn the first signal into a request to stop; ``wake_on`` receives a descriptor that ends a wait."""
        if not self._old:
            yield
            return
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self._take()  # again: Ray installs its own handlers when it connects to a cluster
        old_descriptor = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        wake_on(reader)
        try:
            with self._phase(ask_to_stop):
                yield
        finally:
            signal.set_wakeup_fd(old_descriptor)
            os.close(reader)
            os.close(writer)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer signals until the end of the block, so that writes are completed."""
        with self._phase(lambda: None):
            yield

    @property
    def is_asked_for(self) -> bool:
        """Whether a signal was received and deferred."""
        return self._received is not None

    def exception(self) -> BaseException:
        """Return the exception for the received signal."""
        if self._received is None or self._received == signal.SIGINT:
            return KeyboardInterrupt()
        return Terminated(self._received)

    # ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _phase(self, on_first: Callable[[], None]) -> Iterator[None]:
        before, self._on_first = self._on_first, on_first
        try:
            yield
        finally:
            self._on_first = before

    def _take(self) -> None:
        for number in self._old:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._on_first is None:
            self._raise_at_once(number, frame)
        if self._is_overdue or (number == signal.SIGINT and self._received is not None):
            self._is_overdue = False
            raise self.exception()
        is_first = self._received is None
        if is_first or self._received == signal.SIGINT:
            self._received = number
        if number != signal.SIGINT and self._timer is None:
            self._bound(number)
        if is_first and self._on_first is not None:
            self._on_first()

    def _raise_at_once(self, number: int, frame: FrameType | None) -> None:
        old = self._old[number]
        if number != signal.SIGINT:
            raise Terminated(number)
        if callable(old):
            old(number, frame)
        raise KeyboardInterrupt

    def _bound(self, number: int) -> None:
        """Send the signal again when the grace period is over."""
        main = threading.main_thread().ident
        assert main is not None

        def send_again() -> None:
            self._is_overdue = True
            signal.pthread_kill(main, number)

        self._timer = threading.Timer(GRACE_S, send_again)
        self._timer.daemon = True
        self._timer.start()


def say_that_it_stops(stop: StopSignals) -> None:
    """Print what the first signal of a run does."""
    ending = stop.exception()
    if isinstance(ending, Terminated):
        text = f"Stopping on {ending.name}: running tasks are being finished, for at most {GRACE_S:g} s."
    else:
        text = "Stopping: running tasks are being finished. Press Ctrl-C again to stop at once."
    say_on_stderr(f"\n{text}")
