"""Start the fork server: the process, with modules already loaded, that all workers are forked from."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, get_context, resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

import penstock
from penstock.errors import ClusterError
from penstock.storage.filesystem import require_working_folder

# The number of fork servers that may die before starting a worker fails.
_MAX_SERVERS = 5
_RETRY_DELAY_S = 0.1
# The server loads modules before its first answer, on a machine that may be busy.
_ANSWER_TIMEOUT_S = 300.0
FOR_THE_DRIVER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


_BASE = "penstock.backends.local.preloaded"
_PANDAS = "penstock.backends.local.preloaded_pandas"


def fork_server(modules: Sequence[str] | None = None) -> ForkServerContext:
    """Start the server if it is not running, and return the context to start processes with.

    The first call in this process decides which modules the server loads, in the background. None: everything that
    stages of Penstock or of a user may need.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([_BASE, *(modules if modules is not None else [*_package_preloads(), _PANDAS])])
    _ensure_running()
    return context


def _package_preloads() -> list[str]:
    """Return the ``preload`` modules of all packages of Penstock that have one."""
    root = Path(penstock.__file__).parent
    return sorted(f"penstock.{path.parent.name}.preload" for path in root.glob("*/preload.py"))


def _ensure_running() -> None:
    with without_main(), _signals_blocked():
        forkserver.ensure_running()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block SIGINT, SIGTERM and SIGHUP, so that processes started here inherit the blocked signals.

    A batch scheduler and a terminal send these to every process of a job. The driver decides what they mean, and lets
    workers finish first. A signal that comes for this process meanwhile is delivered afterwards.
    """
    old = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_DRIVER)
    try:
        # Python's resource tracker ignores all of them but SIGHUP, and unblocks the signals when it has started.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_DRIVER)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def leave_signals_to_the_driver() -> None:
    """Ignore the signals that are meant for the driver, with handlers that do nothing.

    The signals are not blocked or ignored: programs that a stage starts would inherit that and could not be stopped.
    """
    for number in FOR_THE_DRIVER:
        signal.signal(number, _do_nothing)
        signal.siginterrupt(number, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_THE_DRIVER)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def start(process: BaseProcess) -> None:
    """Start a process; if the fork server dies, start another server and try again."""
    require_working_folder()  # Python passes the working folder to every new process
    for number in range(_MAX_SERVERS):
        _ensure_running()
        with without_main(), suppress(EOFError, ConnectionError), _deadline():
            process.start()
            return
        time.sleep(_RETRY_DELAY_S * number)  # until the old server is known to be dead
    raise ClusterError(
        f"workers cannot be started: the process that they are forked from died {_MAX_SERVERS} times. Is another "
        f"process killing it, is there no memory left, or did it not answer within {_ANSWER_TIMEOUT_S:g} s?"
    )


@contextmanager
def _deadline() -> Iterator[None]:
    """Kill the server if it does not answer in time, so that the call that waits for it raises."""
    timer = threading.Timer(_ANSWER_TIMEOUT_S, _end_server)
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
    script without an ``if __name__ == "__main__"`` once more. Workers get the definitions they need in the pickle.
    """
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {name: vars(main).pop(name) for name in ("__spec__", "__file__") if name in vars(main)}
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)
