"""Records one after another in a file that a crash may cut anywhere: what is whole can be read, the rest is not there.

A record is ``length, checksum, body``. Reading stops at the first record that is not whole.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from penstock.storage.atomic import explain_write

_HEADER = struct.Struct("<II")


def framed(body: bytes) -> bytes:
    """Return a body as it stands in the file."""
    return _HEADER.pack(len(body), zlib.crc32(body)) + body


def read_records(stream: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield each body that is whole, and where its record ends."""
    while len(header := stream.read(_HEADER.size)) == _HEADER.size:
        length, checksum = _HEADER.unpack(header)
        body = stream.read(length)
        if not length or len(body) < length or zlib.crc32(body) != checksum:
            return
        yield body, stream.tell()


class RecordFile:
    """A file that this process alone appends to: no more than one call to the system for a record."""

    def __init__(self, path: str) -> None:
        self._path = path
        with explain_write(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._end = os.fstat(self._file).st_size

    def append(self, *parts: bytes) -> None:
        """Write a record, given in parts so that nobody has to join them; if there is no room, nothing of it stays."""
        checksum = 0
        for part in parts:
            checksum = zlib.crc32(part, checksum)
        size = sum(map(len, parts))
        whole = [_HEADER.pack(size, checksum), *parts]
        with explain_write(self._path):
            try:
                if os.writev(self._file, whole) < _HEADER.size + size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                os.ftruncate(self._file, self._end)
                raise
        self._end += _HEADER.size + size

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
