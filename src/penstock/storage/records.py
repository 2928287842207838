"""Files of records that a crash may truncate anywhere: complete records can be read, the rest is ignored.

A record is ``length, checksum, body``. Reading stops at the first incomplete record. A record may be followed by
attached data that is too large for a checksum; the body holds its length, and the reader skips it.
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
# ``writev`` accepts at most 1,024 buffers in one call.
_MAX_BUFFERS = 1000


def framed(body: bytes) -> bytes:
    """Return a record: the header followed by the body."""
    return _HEADER.pack(len(body), zlib.crc32(body)) + body


def read_records(stream: IO[bytes] | mmap) -> Iterator[tuple[bytes, int]]:
    """Yield the body of each complete record, and the position where the record ends."""
    while len(header := stream.read(_HEADER.size)) == _HEADER.size:
        length, checksum = _HEADER.unpack(header)
        body = stream.read(length)
        if not length or len(body) < length or zlib.crc32(body) != checksum:
            return
        yield body, stream.tell()


class RecordFile:
    """A record file that only this process appends to, with one system call per record."""

    def __init__(self, path: str) -> None:
        self._path = path
        with explain_write(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._end = os.fstat(self._file).st_size

    def append(self, body: bytes, *attached: bytes | memoryview) -> None:
        """Append a record and its attached data without joining them. If the disk is full, nothing is appended."""
        whole = [framed(body), *attached]
        if len(whole) > _MAX_BUFFERS:
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
