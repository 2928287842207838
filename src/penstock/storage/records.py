"""Records one after another in a file that a crash may cut anywhere: what is whole can be read, the rest is not there.

A record is ``length, checksum, body``. Reading stops at the first record that is not whole. Behind a record may stand
what is too large for a checksum; its body says how long that is, and who reads goes past it.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path
from typing import IO

from penstock.storage.atomic import explain_write

_HEADER = struct.Struct("<II")
# The system takes no more than 1,024 in one call.
_MOST_PARTS = 1000


def framed(body: bytes) -> bytes:
    """Return a body as it stands in the file."""
    return _HEADER.pack(len(body), zlib.crc32(body)) + body


def read_records(stream: IO[bytes] | mmap) -> Iterator[tuple[bytes, int]]:
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

    def append(self, body: bytes, *attached: bytes | memoryview) -> None:
        """Write a record and what goes with it, which nobody has to join; if there is no room, nothing of it stays."""
        whole = [framed(body), *attached]
        if len(whole) > _MOST_PARTS:
            whole = [b"".join(whole)]
        size = sum(memoryview(part).nbytes for part in whole)
        with explain_write(self._path):
            try:
                if os.writev(self._file, whole) < size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                os.ftruncate(self._file, self._end)
                raise
        self._end += size

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
