"""Read the records of a WARC or WET file, one at a time.

A truncated file, a member that does not decompress or an invalid header costs only the record it is in. That record is
returned as ``Damaged`` with its position in the file, and reading continues with the next good record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from penstock.text.extract.members import DamagedMember, Members
from penstock.text.extract.outcome import Damaged

_MARKER = b"WARC/"
_MARKER_AT_LINE = re.compile(rb"(?:\A|\n)(?=WARC/[01]\.)")
_MAX_HEADER_BYTES = 1 << 16
MAX_RECORD_BYTES = 64 << 20


@dataclass(frozen=True)
class WarcRecord:
    """One record: its kind, its header with lower-case names, its block, and its position in the file."""

    kind: str
    header: dict[str, str]
    block: bytes
    offset: int

    @property
    def url(self) -> str:
        """The URL it was fetched from."""
        return self.header.get("warc-target-uri", "").strip("<>")

    @property
    def record_id(self) -> str:
        """The record id without the common prefix."""
        return self.header.get("warc-record-id", "").strip("<>").removeprefix("urn:uuid:")

    @property
    def date(self) -> str:
        """The fetch date, as stored in the archive."""
        return self.header.get("warc-date", "")


class _DamagedRecord(Exception):  # noqa: N818 - never leaves this package
    """A record that does not match its header."""


class _TooLarge(Exception):  # noqa: N818 - never leaves this package
    """A record that was skipped because of its size."""


def read_warc(stream: IO[bytes], max_record_bytes: int = MAX_RECORD_BYTES) -> Iterator[WarcRecord | Damaged]:
    """Yield the records of an open, seekable file, compressed or not.

    >>> import io
    >>> file = io.BytesIO(b"WARC/1.0\\r\\nWARC-Type: conversion\\r\\nContent-Length: 4\\r\\n\\r\\ntext\\r\\n\\r\\n")
    >>> [(record.kind, record.block) for record in read_warc(file)]
    [('conversion', b'text')]
    """
    return _Parser(stream, max_record_bytes).records()


class _Parser:
    """Split the file into records; holds one record, and the bytes after it in the same piece."""

    def __init__(self, stream: IO[bytes], max_record_bytes: int) -> None:
        self._members = Members(stream)
        self._max_record_bytes = max_record_bytes
        self._buffer = bytearray()
        # The file position of the buffer's first byte: exact in a plain file, that of the member in a compressed one.
        self._offset = 0
        # The first piece of a member that began inside a record: it belongs to the next record.
        self._early = b""
        self._early_start = 0
        self._found_any = False

    def records(self) -> Iterator[WarcRecord | Damaged]:
        while True:
            header: dict[str, str] = {}
            try:
                if not self._at_record():
                    return
                start = self._offset
                header, begin = self._read_header()
                record = self._read_block(header, begin, start)
            except _TooLarge as error:
                yield Damaged(f"WARC record at byte {start}: {error}", start, header.get("warc-target-uri", ""))
            except (_DamagedRecord, DamagedMember) as error:
                where = header.get("warc-target-uri", "")
                yield Damaged(f"WARC record at byte {self._offset}: {error}", self._offset, where)
                if not self._recover(in_member=isinstance(error, DamagedMember)):
                    return
            else:
                self._found_any = True
                yield record

    def _at_record(self) -> bool:
        """Move to the first byte of the next record; return False at the end of the file."""
        while True:
            blank = len(self._buffer) - len(self._buffer.lstrip(b"\r\n"))
            self._drop(blank)
            if self._buffer:
                break
            self._offset = self._members.next_start
            if not self._load(inside=False):
                return False
        if not self._need(len(_MARKER)) or not self._buffer.startswith(_MARKER):
            if self._buffer.startswith(b"filedesc:"):
                raise _DamagedRecord("this is an ARC file; convert it to WARC first (warcio recompress)")
            raise _DamagedRecord(f"expected 'WARC/', found {bytes(self._buffer[:20])!r}")
        return True

    def _read_header(self) -> tuple[dict[str, str], int]:
        """Return the header, and where in the buffer the block begins."""
        while (end := _end_of_header(self._buffer)) is None:
            if len(self._buffer) > _MAX_HEADER_BYTES or not self._load():
                raise _DamagedRecord("its header has no end")
        lines = bytes(self._buffer[: end[0]]).decode("utf-8", "replace").splitlines()
        header: dict[str, str] = {}
        name = ""
        for line in lines[1:]:
            if line[:1] in " \t" and name:
                header[name] += f" {line.strip()}"
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                header[name] = value.strip()
        return header, end[1]

    def _read_block(self, header: dict[str, str], begin: int, start: int) -> WarcRecord:
        stated = header.get("content-length", "")
        if not (stated.isascii() and stated.isdigit()):
            raise _DamagedRecord(f"Content-Length is {stated!r}")
        end = begin + int(stated)
        if end - begin > self._max_record_bytes:
            self._skip(end)
            raise _TooLarge(f"holds {end - begin:,} bytes, more than the {self._max_record_bytes:,} allowed")
        if not self._need(end):
            there = len(self._buffer) - begin
            raise _DamagedRecord(f"truncated: {end - begin:,} bytes are announced, {there:,} are present")
        # The checksum is at the end of the member: read that far before accepting the record.
        while self._members.in_member and len(self._buffer) <= end + len(b"\r\n\r\n"):
            self._buffer += self._members.rest_of_member()
        after = bytes(self._buffer[end : end + 64]).lstrip(b"\r\n")[: len(_MARKER)]
        if self._members.in_member and not _MARKER.startswith(after):
            raise _DamagedRecord(f"it does not end where it should: {after!r} follows")
        block = bytes(self._buffer[begin:end])
        self._drop(end)
        return WarcRecord(header.get("warc-type", "").lower(), header, block, start)

    def _need(self, size: int) -> bool:
        while len(self._buffer) < size:
            if not self._load():
                return False
        return True

    def _load(self, *, inside: bool = True) -> bool:
        """Add a piece to the buffer; a member that begins another record is not added inside a record."""
        if self._early:
            self._buffer, self._offset, self._early = bytearray(self._early), self._early_start, b""
            return True
        begins = self._members.is_compressed and not self._members.in_member
        piece = self._members.read_piece()
        if inside and begins and self._buffer and piece.startswith(_MARKER):
            self._early, self._early_start = piece, self._members.start
            raise _DamagedRecord("truncated: the next record begins before it ends")
        self._buffer += piece
        return bool(piece)

    def _drop(self, size: int) -> None:
        del self._buffer[:size]
        if not self._members.is_compressed:
            self._offset += size
        elif not self._buffer:
            self._offset = self._members.next_start

    def _skip(self, size: int) -> None:
        while size > len(self._buffer):
            size -= len(self._buffer)
            self._buffer.clear()
            if not self._load():
                return
        self._drop(size)

    def _recover(self, *, in_member: bool) -> bool:
        """Go to the next place where a record begins; False if there is none."""
        if self._early:
            self._buffer.clear()
            return self._load()
        if in_member:
            self._buffer.clear()
            return self._members.skip_to(_MARKER)
        # If its beginning is damaged, a compressed file looks like a plain one.
        if not self._found_any and not self._members.is_compressed and self._members.find_first_member(_MARKER):
            self._buffer.clear()
            return True
        searched = min(1, len(self._buffer))
        while True:
            found = _MARKER_AT_LINE.search(self._buffer, searched)
            if found is not None:
                self._drop(found.end())
                return True
            self._drop(max(0, len(self._buffer) - len(_MARKER) - 3))
            searched = 0
            try:
                if self._members.is_compressed and not self._members.in_member:
                    self._buffer.clear()
                    self._offset = self._members.next_start
                if not self._load(inside=False):
                    return False
            except DamagedMember:
                return self._recover(in_member=True)


def _end_of_header(buffer: bytearray) -> tuple[int, int] | None:
    """Return where the header ends and where the block begins; some archives end their lines with \\n alone."""
    end = buffer.find(b"\r\n\r\n")
    if end >= 0:
        return end, end + 4
    end = buffer.find(b"\n\n")
    return (end, end + 2) if end >= 0 else None
