"""Read and write compressed streams; a truncated stream is read as far as possible."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any, NamedTuple, cast

import zstandard

from penstock.errors import suggestion

# Supported compressions by their usual ending, which may follow another extension (``.jsonl.gz``).
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
# All accepted endings, in lower case; matching ignores case.
_ENDINGS = {ending: ending for ending in COMPRESSIONS} | {".gzip": ".gz", ".bzip2": ".bz2", ".zstd": ".zst"}
_READ_BYTES = 1 << 16
# The output of one step is bounded, so that a small file that decompresses to gigabytes takes little memory.
_MAX_OUTPUT_BYTES = 1 << 20
# zstandard cannot bound its output, so the input is bounded: four bytes make at most 128 kB of zeros, so 32 MB a step.
_ZSTD_STEP_BYTES = 1 << 10
_ERRORS = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class _Step(NamedTuple):
    """Result of one step of a decompressor."""

    out: bytes
    # Input that was not consumed.
    rest: bytes | memoryview
    # Whether there may be more output without further input.
    has_more: bool


def _step_of_zlib(decompressor: Any, data: bytes | memoryview) -> _Step:  # noqa: ANN401 - each library has its own
    out = decompressor.decompress(data, _MAX_OUTPUT_BYTES)
    rest = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
    return _Step(out, rest, not decompressor.eof and len(out) == _MAX_OUTPUT_BYTES)


def _step_of_lzma_or_bz2(decompressor: Any, data: bytes | memoryview) -> _Step:  # noqa: ANN401
    out = decompressor.decompress(data, _MAX_OUTPUT_BYTES)
    if decompressor.eof:
        return _Step(out, decompressor.unused_data, False)
    return _Step(out, b"", not decompressor.needs_input)


def _step_of_zstd(decompressor: Any, data: bytes | memoryview) -> _Step:  # noqa: ANN401
    view = memoryview(data)
    out = decompressor.decompress(view[:_ZSTD_STEP_BYTES])
    rest: bytes | memoryview = view[_ZSTD_STEP_BYTES:]
    if decompressor.eof and decompressor.unused_data:
        rest = decompressor.unused_data + bytes(rest)
    return _Step(out, rest, False)


_DECOMPRESSORS: dict[str, tuple[Callable[[], Any], Callable[[Any, bytes | memoryview], _Step]]] = {
    ".gz": (lambda: zlib.decompressobj(wbits=31), _step_of_zlib),
    ".bz2": (bz2.BZ2Decompressor, _step_of_lzma_or_bz2),
    ".xz": (lzma.LZMADecompressor, _step_of_lzma_or_bz2),
    ".zst": (lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(), _step_of_zstd),
}


def bare_name(path: str) -> str:
    """Return a path without the ending of its compression.

    >>> bare_name("crawl/a.jsonl.gz"), bare_name("crawl/A.JSONL.GZIP"), bare_name("crawl/a.jsonl")
    ('crawl/a.jsonl', 'crawl/A.JSONL', 'crawl/a.jsonl')
    """
    return path[: len(path) - len(_ending_in(path))]


def compression_of(path: str) -> str | None:
    """Return the compression of a file, derived from its name; None if it is not compressed.

    >>> compression_of("crawl/a.jsonl.gz"), compression_of("crawl/A.JSONL.GZIP"), compression_of("crawl/a.jsonl")
    ('.gz', '.gz', None)
    """
    return _ENDINGS.get(_ending_in(path))


def _ending_in(path: str) -> str:
    """Return the ending of a path that denotes a compression; empty if there is none."""
    ending = path[path.rfind(".") :].lower() if "." in path else ""
    return ending if ending in _ENDINGS else ""


def ending_of(compression: str | None) -> str | None:
    """Return the file ending for the name of a compression.

    >>> ending_of("gzip"), ending_of("zst"), ending_of(None)
    ('.gz', '.zst', None)
    """
    if compression is None:
        return None
    ending = _ENDINGS.get(f".{compression.lower().removeprefix('.')}")
    if ending is None:
        known = [name[1:] for name in _ENDINGS]
        raise ValueError(
            f"compression={compression!r}; it is one of gzip, bz2, xz, zstd.{suggestion(compression, known)}"
        )
    return ending


class Decompressed(io.RawIOBase):
    """Decompress a stream. Several concatenated members are read as one stream.

    All data that can be decompressed is returned before an error is raised, so that a truncated file loses only the
    missing part.
    """

    def __init__(self, source: IO[bytes], ending: str) -> None:
        self._source = source
        self._make, self._step = _DECOMPRESSORS[ending]
        self._decompressor: Any = None
        self._input: bytes | memoryview = b""
        self._has_more = False
        self._output = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, target: Any) -> int:  # noqa: ANN401 - any buffer
        """Read into a buffer and return the number of bytes; 0 at the end of the stream."""
        if not self._output:
            self._output = memoryview(self._next())
        count = min(len(target), len(self._output))
        memoryview(target).cast("B")[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def _next(self) -> bytes:
        """Return some decompressed bytes; no bytes at the end of the stream."""
        while True:
            if not self._input and not self._has_more:
                self._input = self._source.read(_READ_BYTES)
                if not self._input:
                    if self._decompressor is not None:
                        raise EOFError("the file ends in the middle of a compressed stream")
                    return b""
            if self._decompressor is None:
                self._input = bytes(self._input).lstrip(b"\0")  # padding after a member
                if not self._input:
                    continue
                self._decompressor = self._make()
            if out := self._decompress():
                return out

    def _decompress(self) -> bytes:
        data, self._input = self._input, b""
        try:
            out, self._input, self._has_more = self._step(self._decompressor, data)
            if self._decompressor.eof:
                self._decompressor = None
            return out
        except _ERRORS as error:
            raise EOFError(f"the compressed stream is damaged: {error}") from error


def compressing(stream: IO[bytes], ending: str | None) -> AbstractContextManager[IO[bytes]]:
    """Return a stream that compresses what is written to it. The same input always results in the same bytes."""
    if ending is None:
        return nullcontext(stream)
    if ending == ".gz":  # no file name and no time in the header, so that the output is deterministic
        return cast("IO[bytes]", gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0))
    if ending == ".bz2":
        return cast("IO[bytes]", bz2.BZ2File(stream, "wb"))
    if ending == ".xz":
        return cast("IO[bytes]", lzma.LZMAFile(stream, "wb"))
    return cast("IO[bytes]", zstandard.ZstdCompressor(level=3).stream_writer(stream, closefd=False))
