"""Identify input files by size, times, and a fingerprint of the content, to detect changes between runs.

The fingerprint is a hash of samples: the whole file up to 224 kB; of a larger file the first and last 64 kB and six
samples of 16 kB in between. Reading the whole file would take as long as the run itself. If an object store has a
content tag (such as an ETag), the tag is used and nothing is read.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from penstock.core.files import SizedFile
from penstock.errors import InputError
from penstock.storage.filesystem import filesystem_of, is_local, open_stored

_END_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 14
_SAMPLES = 6
_WHOLE_BYTES = 2 * _END_BYTES + _SAMPLES * _SAMPLE_BYTES
# Fingerprinting is mostly waiting for I/O.
_THREADS = 16


class FileMark(NamedTuple):
    """Identity of an input file: name, size, times and content."""

    path: str
    # Relative to the path the user gave.
    name: str
    size: int
    # Times of the last change of the content (mtime) and of the metadata (ctime), in nanoseconds; 0 if not known.
    modified: int
    changed: int
    # The fingerprint, or the tag of an object store, each prefixed with its kind; empty if the file cannot be read.
    content: str

    def is_same_as(self, other: FileMark) -> bool:
        """Tell whether two marks stand for the same content."""
        if self.size != other.size:
            return False
        if _kind(self.content) == _kind(other.content) != "":
            return self.content == other.content
        return self.modified == other.modified


def mark_files(
    files: Sequence[SizedFile],
    storage_options: dict[str, Any] | None = None,
    known: Mapping[str, FileMark] | None = None,
) -> list[FileMark]:
    """Return the marks of files. Files whose size and times equal those in ``known`` (by path) are not read again."""
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(lambda file: _mark(file, storage_options, (known or {}).get(file.path)), files))


def _mark(file: SizedFile, storage_options: dict[str, Any] | None, known: FileMark | None) -> FileMark:
    filesystem, name = filesystem_of(file.path, storage_options)
    if not is_local(filesystem):
        content = f"tag:{file.tag}" if file.tag else _fingerprint(file.path, file.size, storage_options)
        return FileMark(file.path, file.name, file.size, 0, 0, content)
    try:
        facts = Path(name).stat()
    except OSError:
        return FileMark(file.path, file.name, file.size, 0, 0, "")
    untouched = known is not None and (known.size, known.modified, known.changed) == (
        facts.st_size,
        facts.st_mtime_ns,
        facts.st_ctime_ns,
    )
    if known is not None and untouched:
        content = known.content
    else:
        content = _fingerprint(file.path, facts.st_size, None) if stat.S_ISREG(facts.st_mode) else ""
    return FileMark(file.path, file.name, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, content)


def _fingerprint(path: str, size: int, storage_options: dict[str, Any] | None) -> str:
    """Return a hash of the size and of samples of the content; empty if the file cannot be read."""
    digest = xxhash.xxh3_128(str(size).encode())
    try:
        with open_stored(path, storage_options) as stream:
            for start, length in sampled(size):
                stream.seek(start)
                digest.update(stream.read(length))
    except InputError:
        return ""
    return f"xxh3:{digest.hexdigest()}"


def sampled(size: int) -> list[tuple[int, int]]:
    """Return the byte ranges of a file that are hashed, as (start, length).

    >>> sampled(200_000)
    [(0, 200000)]
    >>> [start for start, _ in sampled(700_000)]
    [0, 100000, 200000, 300000, 400000, 500000, 600000, 634464]
    """
    if size <= _WHOLE_BYTES:
        return [(0, size)]
    between = [(size * number // (_SAMPLES + 1), _SAMPLE_BYTES) for number in range(1, _SAMPLES + 1)]
    return [(0, _END_BYTES), *between, (size - _END_BYTES, _END_BYTES)]


def _kind(content: str) -> str:
    return content.partition(":")[0]
