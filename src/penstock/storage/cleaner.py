"""A small process that removes folders when the process that uses them has ended, for whatever reason."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_WAIT_FOR_CLEANER_S = 5.0

# Standard input is a pipe that only the owner of the folders holds open: it ends when the owner closes it or dies.
# Workers of a dead owner may write for another moment, so removal is repeated until the folders are gone.
_PROGRAM = """
import os, shutil, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
count = int(sys.argv[1])
owner_is_alive = os.read(0, 1)
folders = sys.argv[2:2 + count] if owner_is_alive else sys.argv[2:]
give_up = time.monotonic() + 600
while time.monotonic() < give_up:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    if not any(map(os.path.lexists, folders)):
        break
    time.sleep(0.02)
os._exit(0)
"""


class Cleaner:
    """Handle of the cleaner process in the process that owns the folders.

    It is started before the folders are made, in a session of its own: a signal to the process group of the owner does
    not reach it. Folders in ``of_process`` are removed only if the owner has died.
    """

    def __init__(self, folders: Sequence[Path], of_process: Sequence[Path] = ()) -> None:
        self._folders = folders
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(len(folders)), *map(str, [*folders, *of_process])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def dismiss(self) -> None:
        """End the cleaner process; if some of the folders still exist, let it remove them first."""
        assert self._process.stdin is not None
        if any(folder.exists() for folder in self._folders):
            self._process.stdin.write(b".")
        else:
            self._process.kill()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # it continues in the background if a folder cannot be removed yet
            self._process.wait(_WAIT_FOR_CLEANER_S)
