"""Messages between the driver and a worker process; task data is in shared memory, and messages carry its path."""

from __future__ import annotations

import os
import pickle
import select
import struct
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from penstock.backends.reports import Report
from penstock.schedule.actions import Selection

_LENGTH = struct.Struct("<Q")
_READ_BYTES = 1 << 18


class RunOrder(NamedTuple):
    """To a worker: run a batch of stored tasks."""

    batch: int
    places: tuple[str | bytes, ...]
    credit: int
    already: frozenset[str]
    selections: tuple[Selection, ...]
    probe: bool
    # Store outputs on disk instead of in memory; no credit is needed then.
    spill: bool


class Grant(NamedTuple):
    """To a worker: credit to store the output it asked for; with ``spill``, on disk."""

    size: int
    spill: bool = False


class Stop(NamedTuple):
    """To a worker: tear down and end; with ``stay``, keep the process for another pool."""

    stay: bool = False


class Begin(NamedTuple):
    """To a worker that has torn down: start in another pool."""

    orders: Any


class Ready(NamedTuple):
    """From a worker: setup is complete."""


class SetupFailed(NamedTuple):
    """From a worker: setup failed."""

    reason: str


class TornDown(NamedTuple):
    """From a worker whose process is kept: teardown is complete."""


ToWorker = RunOrder | Grant | Stop | Begin
FromWorker = Ready | SetupFailed | TornDown | Report


class MessageChannel:
    """One end of a connection: sends single messages, and receives all messages that have arrived."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection  # keeps the descriptor open
        self._descriptor = connection.fileno()
        self._arrived = bytearray()
        self._unsent = bytearray()

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._descriptor

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send a message."""
        body = pickle.dumps(message, protocol=5)
        rest = memoryview(_LENGTH.pack(len(body)) + body)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def never_wait(self) -> None:
        """Make ``post`` and ``receive`` non-blocking."""
        os.set_blocking(self._descriptor, False)

    def post(self, message: ToWorker | FromWorker) -> bool:
        """Send a message without blocking; return False if a part is left for ``post_rest``."""
        body = pickle.dumps(message, protocol=5)
        self._unsent += _LENGTH.pack(len(body)) + body
        return self.post_rest()

    def post_rest(self) -> bool:
        """Send more of the unsent bytes; return True if none are left."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self._descriptor, self._unsent)]
        except BlockingIOError:
            return False
        return True

    def receive(self) -> list[Any]:
        """Wait for data, and return all complete messages; raise EOFError if the other end is closed."""
        try:
            arrived = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return []
        if not arrived:
            raise EOFError
        self._arrived += arrived
        messages = []
        position = 0
        while len(self._arrived) - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._arrived, position)
            end = position + _LENGTH.size + length
            if end > len(self._arrived):
                break
            messages.append(pickle.loads(memoryview(self._arrived)[position + _LENGTH.size : end].tobytes()))
            position = end
        del self._arrived[:position]
        return messages

    def has_more(self) -> bool:
        """Tell whether ``receive`` would return at once."""
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
