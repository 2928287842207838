"""The process that all workers are forked from, with everything loaded that they need."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from multiprocessing import forkserver, get_context, resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from penstock.errors import ClusterError
from penstock.storage.filesystem import require_working_folder

# So many may die before it is said that none can live here.
_SERVERS = 5
_PATIENCE_S = 0.1
# It has to load what workers need before it answers the first time, on a machine that may be busy.
_ANSWER_S = 300.0
FOR_THE_DRIVER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Loaded(IntEnum):
    """What workers begin with; each is something more than the one before it."""

    ARROW = 1
    KERNELS = 2
    PANDAS = 3


_MODULES = {
    Loaded.ARROW: "penstock.backends.local.preloaded",
    Loaded.KERNELS: "penstock.backends.local.preloaded_kernels",
    Loaded.PANDAS: "penstock.backends.local.preloaded_for_others",
}


def fork_server(loaded: Loaded) -> ForkServerContext:
    """Let it begin to load, if it has not, and return what processes are started with.

    How much it has loaded is decided by who is the first to ask. It does so while whoever calls has other things to do.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([_MODULES[what] for what in Loaded if what <= loaded])
    _ensure_running()
    return context


def _ensure_running() -> None:
    with without_main(), _starting_deaf():
        forkserver.ensure_running()


@contextmanager
def _starting_deaf() -> Iterator[None]:
    """Start processes on which SIGINT, SIGTERM and SIGHUP have no effect: they inherit that these are blocked.

    A batch scheduler and a terminal send these to every process of a job. The driver decides what they mean, and lets
    workers finish first. A signal that comes for this process meanwhile is delivered afterwards.
    """
    old = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_DRIVER)
    try:
        # Python's own helper process: it makes itself deaf to all but SIGHUP, and then unblocks what it had blocked.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_DRIVER)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def leave_signals_to_the_driver() -> None:
    """Let this process do nothing on signals that are meant for the driver.

    By a function, and not blocked or ignored: programs that a stage starts would inherit that, and could not be ended.
    """
    for number in FOR_THE_DRIVER:
        signal.signal(number, _do_nothing)
        signal.siginterrupt(number, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_THE_DRIVER)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def start(process: BaseProcess) -> None:
    """Start a process; if the server dies over it, by another one."""
    require_working_folder()  # Python tells every new process where it is
    for number in range(_SERVERS):
        _ensure_running()
        with without_main(), suppress(EOFError, ConnectionError), _deadline():
            process.start()
            return
        time.sleep(_PATIENCE_S * number)  # until it is seen that the old one is dead
    raise ClusterError(
        f"workers cannot be started: the process that they are forked from died {_SERVERS} times. Is somebody killing "
        f"it, is there no memory left, or did it not answer within {_ANSWER_S:g} s?"
    )


@contextmanager
def _deadline() -> Iterator[None]:
    """End the server if it does not answer in time: whoever waits for its answer is told that it is gone then."""
    timer = threading.Timer(_ANSWER_S, _end_server)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end_server() -> None:
    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    with suppress(ProcessLookupError):
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


@contextmanager
def without_main() -> Iterator[None]:
    """Start a process without running the user's script again in it.

    The standard library imports the main module anew in every process it spawns, which would start the pipeline of a
    script without an ``if __name__ == "__main__"`` once more. What workers need of it travels inside the pickle.
    """
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {name: vars(main).pop(name) for name in ("__spec__", "__file__") if name in vars(main)}
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)
