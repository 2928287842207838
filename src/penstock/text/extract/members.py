"""A compressed file as a row of members: what is whole is read, what is damaged can be stepped over.

WARC files hold one gzip member per record, Wikipedia dumps one bzip2 stream per hundred pages. So a broken byte need
cost no more than the member it is in, and the end of a truncated file can be told from the end of a whole one.
"""

from __future__ import annotations

import bz2
import zlib
from typing import IO, Any

_GZIP, _BZIP2 = b"\x1f\x8b\x08", b"BZh"
_READ = 1 << 20
# Small: what a member leaves over of its last piece is copied.
_FEED = 1 << 14
# What comes out at a time: little of a compressed file can decompress to gigabytes.
_MOST_OUT = 1 << 22


class DamagedMember(Exception):  # noqa: N818 - never leaves this package
    """The file breaks off, or a member of it does not decompress."""


class Members:
    """Reads a file of gzip members or bzip2 streams, or a plain one, piece by piece."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._chunk, self._position = b"", 0
        # Where in the file the next byte to be decompressed lies, and where the current member begins.
        self._offset = 0
        self.start = 0
        self._decoder: Any = None
        magic = stream.read(3)
        stream.seek(0)
        self._magic = magic if magic in (_GZIP, _BZIP2) else b""

    @property
    def is_compressed(self) -> bool:
        """Tell whether there are members at all."""
        return bool(self._magic)

    @property
    def in_member(self) -> bool:
        """Tell whether the current member has not ended yet."""
        return self._decoder is not None

    @property
    def next_start(self) -> int:
        """Where in the file the next piece comes from: the member it is in, or the piece itself in a plain file."""
        return self.start if self.in_member else self._offset

    def read_piece(self) -> bytes:
        """Return some more bytes, never of two members at once; none at the end of the file."""
        if not self._magic:
            self.start = self._offset
            piece = bytes(self._take(_READ))
            self._offset += len(piece)
            return piece
        while True:
            if not self.in_member:
                if not self._peek():
                    return b""
                self.start, self._decoder = self._offset, self._new_decoder()
            if piece := self.rest_of_member():
                return piece

    def rest_of_member(self) -> bytes:
        """Return some more bytes of the current member; none if it has ended, and its checksum is right."""
        while self.in_member:
            # bzip2 keeps what it has not decompressed yet, zlib gives it back.
            is_fed = self._magic == _BZIP2 and not self._decoder.needs_input
            feed = b"" if is_fed else self._take(_FEED)
            if not feed and not is_fed:
                self._decoder = None
                raise DamagedMember("the file ends in the middle of it; was it downloaded whole?")
            try:
                piece = self._decoder.decompress(feed, _MOST_OUT)
            except (zlib.error, OSError, EOFError) as error:
                self._decoder = None
                raise DamagedMember(f"it does not decompress: {error}") from error
            self._offset += len(feed)
            unused = len(self._decoder.unused_data) or len(getattr(self._decoder, "unconsumed_tail", b""))
            self._offset -= unused
            self._position -= unused
            if self._decoder.eof:
                self._decoder = None
            if piece:
                return bytes(piece)
        return b""

    def look_for_members(self, marker: bytes) -> bool:
        """Go to the first member anywhere in a file whose beginning is damaged; False if it has none."""
        here = self._offset
        for self._magic in (_GZIP, _BZIP2):
            self.start = -1
            if self.step_over(marker):
                return True
        self._magic = b""
        self._seek(here)
        return False

    def step_over(self, marker: bytes) -> bool:
        """Go to the next member whose content begins with the marker; False if there is none."""
        position = self.start + 1
        while self._magic:
            found = self._find(position)
            if found is None:
                return False
            self._seek(found)
            try:
                if self._new_decoder().decompress(self._stream.read(_FEED), 4096).startswith(marker):
                    self._seek(found)
                    return True
            except (zlib.error, OSError, EOFError):
                pass
            position = found + 1
        return False

    def _new_decoder(self) -> Any:  # noqa: ANN401 - two classes of one shape
        return zlib.decompressobj(31) if self._magic == _GZIP else bz2.BZ2Decompressor()

    def _peek(self) -> bool:
        """Tell whether there is more of the file."""
        if self._position >= len(self._chunk):
            self._chunk, self._position = self._stream.read(_READ), 0
        return bool(self._chunk)

    def _take(self, size: int) -> bytes:
        if not self._peek():
            return b""
        taken = self._chunk[self._position : self._position + size]
        self._position += len(taken)
        return taken

    def _seek(self, position: int) -> None:
        self._stream.seek(position)
        self._chunk, self._position = b"", 0
        self._offset, self._decoder = position, None

    def _find(self, position: int) -> int | None:
        """Return where the magic number of a member next occurs."""
        self._stream.seek(position)
        tail = b""
        while chunk := self._stream.read(_READ):
            window = tail + chunk
            found = window.find(self._magic)
            if found >= 0:
                return position + found
            tail = window[-(len(self._magic) - 1) :]
            position += len(window) - len(tail)
        return None
