"""What the driver and a worker process say to each other. Small: data lies in shared memory, only its name travels."""

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
_READ_AT_ONCE = 1 << 18


class RunOrder(NamedTuple):
    """To a worker: run these stored tasks."""

    batch: int
    places: tuple[str | bytes, ...]
    credit: int
    already: frozenset[str]
    selections: tuple[Selection, ...]
    probe: bool
    # Store outputs on disk instead of in memory; no credit is needed then.
    spill: bool


class Grant(NamedTuple):
    """To a worker: store what you asked for; on disk if it may not be in memory."""

    size: int
    spill: bool = False


class Stop(NamedTuple):
    """To a worker: tear down and end, or, if it is to stay, wait for other orders."""

    stay: bool = False


class Begin(NamedTuple):
    """To a worker that has torn down: begin anew, in another pool."""

    orders: Any


class Ready(NamedTuple):
    """From a worker: set up."""


class SetupFailed(NamedTuple):
    """From a worker: could not be set up."""

    reason: str


class TornDown(NamedTuple):
    """From a worker that is to stay: torn down."""


ToWorker = RunOrder | Grant | Stop | Begin
FromWorker = Ready | SetupFailed | TornDown | Report


class MessageChannel:
    """One end of a connection: whole messages out, and in as many as have arrived with one look."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection  # kept: its descriptor is closed when it is forgotten
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
        """Have ``post`` and ``receive`` return at once, whatever the other end does."""
        os.set_blocking(self._descriptor, False)

    def post(self, message: ToWorker | FromWorker) -> bool:
        """Send as much of a message as the other end takes now; return False if something is left for ``post_rest``."""
        body = pickle.dumps(message, protocol=5)
        self._unsent += _LENGTH.pack(len(body)) + body
        return self.post_rest()

    def post_rest(self) -> bool:
        """Send more of what is left; return True if that was all."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self._descriptor, self._unsent)]
        except BlockingIOError:
            return False
        return True

    def receive(self) -> list[Any]:
        """Wait until something arrives, and return every message that is whole; EOFError when the other end is gone."""
        try:
            arrived = os.read(self._descriptor, _READ_AT_ONCE)
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
        """Hang up."""
        self._connection.close()
