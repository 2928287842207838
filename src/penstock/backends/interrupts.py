"""Ctrl-C during a run: once to finish what runs, twice to stop at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from penstock.backends.backend import RunBackend


@contextmanager
def interruptible(backend: RunBackend) -> Iterator[None]:
    """Let Ctrl-C stop the sources first, and everything when it comes again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    presses = 0

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            raise KeyboardInterrupt
        print("\nStopping: what runs is being finished. Ctrl-C again stops at once.", file=sys.stderr)
        backend.ask_to_stop()

    old_handler = signal.signal(signal.SIGINT, on_interrupt)
    old_descriptor = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    backend.wake_on(reader)
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_descriptor)
        signal.signal(signal.SIGINT, old_handler)
        os.close(reader)
        os.close(writer)
