"""Read a compressed file as a sequence of members, so that a damaged member can be skipped.

WARC files hold one gzip member per record, Wikipedia dumps one bzip2 stream per hundred pages. So a damaged byte costs
only the member it is in, and a truncated file can be told from a complete one.
"""

from __future__ import annotations

import bz2
import zlib
from typing import IO, Any

_GZIP, _BZIP2 = b"\x1f\x8b\x08", b"BZh"
_READ_BYTES = 1 << 20
# The input per decompression step. Small, because the unused rest of a member's last piece is copied.
_INPUT_BYTES = 1 << 14
# The maximum output per decompression step: a few compressed bytes can decompress to gigabytes.
_MAX_OUTPUT_BYTES = 1 << 22


class DamagedMember(Exception):  # noqa: N818 - never leaves this package
    """The file is truncated, or a member does not decompress."""


class Members:
    """Read a file of gzip members or bzip2 streams, or a plain file, piece by piece."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._chunk, self._position = b"", 0
        # The file positions of the next byte to decompress, and of the start of the current member.
        self._offset = 0
        self.start = 0
        self._decoder: Any = None
        magic = stream.read(3)
        stream.seek(0)
        self._magic = magic if magic in (_GZIP, _BZIP2) else b""

    @property
    def is_compressed(self) -> bool:
        """True if the file is compressed."""
        return bool(self._magic)

    @property
    def in_member(self) -> bool:
        """True inside a member."""
        return self._decoder is not None

    @property
    def next_start(self) -> int:
        """The file position of the next piece: of its member, or of the piece itself in a plain file."""
        return self.start if self.in_member else self._offset

    def read_piece(self) -> bytes:
        """Return the next bytes, never of two members at once; b"" at the end of the file."""
        if not self._magic:
            self.start = self._offset
            piece = bytes(self._take(_READ_BYTES))
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
        """Return the next bytes of the current member; b"" if it has ended with a correct checksum."""
        while self.in_member:
            # bzip2 keeps input that it has not decompressed yet, zlib returns it.
            is_fed = self._magic == _BZIP2 and not self._decoder.needs_input
            feed = b"" if is_fed else self._take(_INPUT_BYTES)
            if not feed and not is_fed:
                self._decoder = None
                raise DamagedMember("the file ends in the middle of it; was it downloaded completely?")
            try:
                piece = self._decoder.decompress(feed, _MAX_OUTPUT_BYTES)
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

    def find_first_member(self, marker: bytes) -> bool:
        """Find the first member in a file whose beginning is damaged; return False if there is none."""
        here = self._offset
        for self._magic in (_GZIP, _BZIP2):
            self.start = -1
            if self.skip_to(marker):
                return True
        self._magic = b""
        self._seek(here)
        return False

    def skip_to(self, marker: bytes) -> bool:
        """Skip to the next member whose content begins with the marker; return False if there is none."""
        position = self.start + 1
        while self._magic:
            found = self._find(position)
            if found is None:
                return False
            self._seek(found)
            try:
                if self._new_decoder().decompress(self._stream.read(_INPUT_BYTES), 4096).startswith(marker):
                    self._seek(found)
                    return True
            except (zlib.error, OSError, EOFError):
                pass
            position = found + 1
        return False

    def _new_decoder(self) -> Any:  # noqa: ANN401 - two classes with the same methods
        return zlib.decompressobj(31) if self._magic == _GZIP else bz2.BZ2Decompressor()

    def _peek(self) -> bool:
        """Return True if the file has more bytes."""
        if self._position >= len(self._chunk):
            self._chunk, self._position = self._stream.read(_READ_BYTES), 0
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
        """Return the next position of a member's magic number."""
        self._stream.seek(position)
        tail = b""
        while chunk := self._stream.read(_READ_BYTES):
            window = tail + chunk
            found = window.find(self._magic)
            if found >= 0:
                return position + found
            tail = window[-(len(self._magic) - 1) :]
            position += len(window) - len(tail)
        return None
