"""A lock file that allows one run at a time in a folder, and names the process that holds it.

On file systems with locks, the operating system releases the lock when the process ends for any reason, so the lock
file of a killed run is taken over at once. Object stores and some file systems have no locks. There the holder writes a
heartbeat time into the file every few seconds, and a file without a recent heartbeat, or of a dead process of this
machine, is taken over. Two runs that start there in the same instant may both get the lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from penstock.errors import OutputError
from penstock.storage.atomic import atomic_write, explain_write
from penstock.storage.filesystem import filesystem_of, is_local
from penstock.storage.process_identity import is_alive, machine

_HEARTBEAT_INTERVAL_S = 20.0
# Allows for clock differences between machines, and for slow stores.
_HEARTBEAT_TIMEOUT_S = 90.0
_MAX_COMMAND_CHARACTERS = 200
_LOCK_IS_HELD = (errno.EACCES, errno.EAGAIN)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)

# Locks held by this process: locks of the operating system do not exclude their own process.
_held: set[str] = set()
_held_guard = threading.Lock()


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    host: str
    machine: str
    started: str
    command: str
    # Distinguishes two holders with otherwise equal values.
    token: str
    beat: float

    @classmethod
    def this_process(cls) -> Holder:
        """Describe this process."""
        started = time.strftime("%Y-%m-%d %H:%M:%S %z")
        command = " ".join(sys.argv)[:_MAX_COMMAND_CHARACTERS].encode("utf-8", "replace").decode()
        return cls(os.getpid(), socket.gethostname(), machine(), started, command, uuid.uuid4().hex, time.time())

    @classmethod
    def read(cls, contents: bytes) -> Holder | None:
        """Parse the contents of a lock file; None if they are not valid."""
        try:
            return cls(**json.loads(contents))
        except (ValueError, TypeError):
            return None

    def written(self) -> bytes:
        """Return the contents of the lock file."""
        return json.dumps(asdict(self)).encode() + b"\n"

    def is_gone(self) -> bool:
        """Tell, where there are no locks, whether the holder has ended without releasing the lock."""
        if self.machine == machine() and not is_alive(self.pid, self.beat):
            return True
        return time.time() - self.beat > _HEARTBEAT_TIMEOUT_S

    def __str__(self) -> str:
        """Describe the process for error messages."""
        return f"process {self.pid} on {self.host}, since {self.started} ({self.command})"


class RunLock:
    """A lock file. With ``removes_folder`` its folder is removed with it if it is empty."""

    def __init__(
        self, path: str, storage_options: dict[str, Any] | None = None, *, removes_folder: bool = False
    ) -> None:
        self.path = path
        self._options = storage_options
        self._filesystem, self._name = filesystem_of(path, storage_options)
        self._removes_folder = removes_folder
        self._stream: IO[bytes] | None = None
        self._own: Holder | None = None
        self._made: list[Path] = []
        self._ended = threading.Event()
        self._heartbeat: threading.Thread | None = None

    def take(self) -> None:
        """Take the lock, or raise ``OutputError`` with the process that holds it."""
        with _held_guard:
            if self._key in _held:
                raise self._refusal(Holder.this_process())
            _held.add(self._key)
        try:
            self._own = Holder.this_process()
            if not is_local(self._filesystem) or not self._take_locally():
                self._take_with_heartbeat()
        except BaseException:
            self._clean_up()
            raise

    def release(self) -> None:
        """Release the lock."""
        if self._own is None:
            return
        if self._heartbeat is not None:
            self._ended.set()
            self._heartbeat.join(_HEARTBEAT_INTERVAL_S)
            with suppress(Exception):
                if self._is_ours(self._read()):
                    self._filesystem.rm(self._name)
        elif self._stream is not None:
            with suppress(OSError):
                Path(self._name).unlink(missing_ok=True)
        self._clean_up()

    def _clean_up(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        own_folder = [Path(self._name).parent] if self._removes_folder and is_local(self._filesystem) else []
        with suppress(OSError):  # stops at the first folder that is not empty
            for folder in [*own_folder, *(made for made in self._made if made not in own_folder)]:
                folder.rmdir()
        self._own, self._heartbeat = None, None
        with _held_guard:
            _held.discard(self._key)

    @property
    def _key(self) -> str:
        return os.path.realpath(self._name) if is_local(self._filesystem) else self.path

    def _take_locally(self) -> bool:
        """Take a lock of the operating system; return False if the file system has no locks."""
        path = Path(self._name)
        with explain_write(self.path):
            while True:
                self._make_folders(path.parent)
                try:
                    self._stream = path.open("a+b")
                except FileNotFoundError:  # its folder was removed by a run that has just ended
                    continue
                try:
                    fcntl.lockf(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    if error.errno in _NO_LOCKS:
                        self._stream.close()
                        self._stream = None
                        return False
                    if error.errno not in _LOCK_IS_HELD:
                        raise
                    self._stream.seek(0)
                    raise self._refusal(Holder.read(self._stream.read())) from None
                if path.exists() and path.stat().st_ino == os.fstat(self._stream.fileno()).st_ino:
                    break
                self._stream.close()  # removed by a run that has just ended
            assert self._own is not None
            self._stream.truncate(0)
            self._stream.write(self._own.written())
            self._stream.flush()
        return True

    def _make_folders(self, folder: Path) -> None:
        missing = []
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for new in reversed(missing):
            new.mkdir(exist_ok=True)
        self._made = missing or self._made

    def _take_with_heartbeat(self) -> None:
        assert self._own is not None
        found = self._read()
        if found is not None and not found.is_gone():
            raise self._refusal(found)
        self._write()
        found = self._read()
        if not self._is_ours(found):
            raise self._refusal(found)
        self._ended.clear()
        self._heartbeat = threading.Thread(target=self._beat, name="penstock-run-lock", daemon=True)
        self._heartbeat.start()

    def _beat(self) -> None:
        while not self._ended.wait(_HEARTBEAT_INTERVAL_S):
            with suppress(Exception):  # a single missed heartbeat is harmless
                self._write()

    def _is_ours(self, found: Holder | None) -> bool:
        return found is not None and self._own is not None and found.token == self._own.token

    def _write(self) -> None:
        assert self._own is not None
        with atomic_write(self.path, self._options, durable=False) as stream:
            stream.write(Holder(**{**asdict(self._own), "beat": time.time()}).written())

    def _read(self) -> Holder | None:
        try:
            return Holder.read(self._filesystem.cat_file(self._name))
        except FileNotFoundError:
            return None

    def _refusal(self, holder: Holder | None) -> OutputError:
        folder = self.path.rpartition("/")[0]
        return OutputError(
            f"{folder}: another run is at work there: {holder or 'a process that has not written its name yet'}. "
            "Let it end, or stop it and run again; or give another output."
        )
