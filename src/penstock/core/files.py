"""A task that names files, and how files are grouped and cut into such tasks."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from penstock.core.task import Task

# Metadata of a source about every file of a task, in order: its path, and its name below the path that the user gave.
_PER_FILE = ("source_files", "source_names")


@dataclass(repr=False)
class FileGroupTask(Task[list[str]]):
    """Files that are read, or were written, together.

    >>> FileGroupTask("crawl", ["b.jsonl", "a.jsonl"]).num_items
    2
    """

    noun: ClassVar[str] = "files"

    reader_config: dict[str, Any] = field(default_factory=dict)

    @property
    def num_items(self) -> int:
        """The number of files."""
        return len(self.data)

    @property
    def num_bytes(self) -> int:
        """The size of the paths in bytes; the content of the files is not in memory."""
        return sum(len(path.encode("utf-8", "surrogateescape")) for path in self.data)

    def select(self, rows: Sequence[int]) -> FileGroupTask:
        """Return a task of only these files, with the same task id.

        >>> known = {"source_files": ["/a", "/b"], "source_names": ["a", "b"]}
        >>> FileGroupTask("crawl", ["/a", "/b"], _metadata=known).select([1])._metadata
        {'source_files': ['/b'], 'source_names': ['b']}
        """
        chosen = copy.copy(self)
        chosen.data = [self.data[row] for row in rows]
        # At a source the metadata describes each file of the task. For files made by a stage it describes their inputs.
        if self._metadata.get("source_files") == self.data:
            kept = {key: [self._metadata[key][row] for row in rows] for key in _PER_FILE if key in self._metadata}
            chosen._metadata = self._metadata | kept
        return chosen

    def excerpt(self, row: int) -> str:
        """Return the path of one file."""
        return self.data[row]

    def validate(self) -> bool:
        """Raise TypeError unless the data is a list of paths."""
        if not isinstance(self.data, list) or not all(isinstance(path, str) for path in self.data):
            raise TypeError(f"FileGroupTask: data must be a list of path strings, got {self.data!r:.200}")
        return True

    def get_deterministic_id(self) -> str:
        """Return a hash of the file names, so that a new file beside them does not rename this task.

        Names below the path that the user gave are used where the source has them, so that moving the whole data set
        does not change the ids either.
        """
        names = self._metadata.get("source_names", self.data)
        return hashlib.sha256("|".join(sorted(names)).encode("utf-8", "surrogateescape")).hexdigest()[:12]


# A position in the files of a task: the number of the file above these bits, the byte or row in that file below them.
PLACE_BITS = 40
# Metadata of a batch from several files: the number of the first document of each file, in order. None: documents are
# identified by their position in the file, not by a number.
FILE_STARTS = "file_starts"


class SizedFile(NamedTuple):
    """An existing file, or a part of one, and its size."""

    path: str
    size: int
    # Its name below the path the user gave: it stays the same when the data set is moved.
    name: str = ""
    # The decompressed sizes of its row groups, between which it may be cut. Empty: it may be cut anywhere, or the row
    # groups were not read.
    pieces: tuple[int, ...] = ()
    # The range of bytes or row groups, end exclusive. None: the whole file.
    part: tuple[int, int] | None = None
    # The content tag of an object store, such as an ETag; empty where there is none.
    tag: str = ""

    @property
    def part_name(self) -> str:
        """The name, followed by the range for a part of a file.

        >>> SizedFile("/data/a.jsonl", 100, "a.jsonl", part=(0, 100)).part_name
        'a.jsonl[0:100]'
        """
        return self.name if self.part is None else f"{self.name}[{self.part[0]}:{self.part[1]}]"

    @property
    def origin(self) -> str:
        """The folder or URL prefix that the name is relative to.

        >>> SizedFile("/data/day1/crawl/a.jsonl", 100, "crawl/a.jsonl").origin
        '/data/day1/'
        """
        return self.path.removesuffix(self.name)

    @property
    def bytes_to_read(self) -> int:
        """The size after decompression, as far as it is known.

        >>> SizedFile("a.parquet", 10, pieces=(60, 40)).bytes_to_read
        100
        """
        return sum(self.pieces) or self.size


def origin_of(task: Task[Any]) -> str | None:
    """Return the origin (see ``SizedFile``) of a task's data; None if it does not come from a listed file.

    >>> origin_of(FileGroupTask("d", [], _metadata={"source_files": ["/x/a.jsonl"], "source_names": ["a.jsonl[0:9]"]}))
    '/x/'
    """
    files, names = (task._metadata.get(key) for key in _PER_FILE)
    if not files or not names or not names[0]:
        return None
    path, name = str(files[0]), str(names[0])
    return path.removesuffix(name if path.endswith(name) else name.rpartition("[")[0])


def group_files(
    files: Sequence[SizedFile], files_per_partition: int | None = None, blocksize: int | None = None
) -> Iterator[list[SizedFile]]:
    """Group files that are read together, in order.

    With a ``blocksize`` a group is closed before it exceeds that many bytes. A part of a file is a group by itself.

    >>> files = [SizedFile("a", 6), SizedFile("b", 3), SizedFile("c", 4)]
    >>> [[f.path for f in group] for group in group_files(files, blocksize=10)]
    [['a', 'b'], ['c']]
    >>> [[f.path for f in group] for group in group_files(files)]
    [['a'], ['b'], ['c']]
    """
    limit = files_per_partition if files_per_partition or blocksize else 1
    group: list[SizedFile] = []
    group_bytes = 0
    for file in files:
        full = limit is not None and len(group) >= limit
        overflow = blocksize is not None and group_bytes + file.bytes_to_read > blocksize
        alone = file.part is not None or (bool(group) and group[-1].part is not None)
        if group and (full or overflow or alone):
            yield group
            group, group_bytes = [], 0
        group.append(file)
        group_bytes += file.bytes_to_read
    if group:
        yield group


def cut_by_bytes(file: SizedFile, blocksize: int) -> Iterator[SizedFile]:
    """Cut a file that can be cut anywhere into parts of ``blocksize`` bytes.

    >>> [part.part for part in cut_by_bytes(SizedFile("a", 25), 10)]
    [(0, 10), (10, 20), (20, 25)]
    >>> [part.part for part in cut_by_bytes(SizedFile("a", 10), 10)]
    [None]
    """
    if file.size <= blocksize:
        yield file
        return
    for start in range(0, file.size, blocksize):
        end = min(start + blocksize, file.size)
        yield file._replace(size=end - start, part=(start, end))


def cut_by_pieces(file: SizedFile, blocksize: int) -> Iterator[SizedFile]:
    """Cut a file between its row groups, into parts of at most ``blocksize`` decompressed bytes where possible.

    >>> [part.part for part in cut_by_pieces(SizedFile("a", 7, pieces=(4, 4, 9, 8)), 10)]
    [(0, 2), (2, 3), (3, 4)]
    """
    if file.bytes_to_read <= blocksize or len(file.pieces) < 2:
        yield file
        return
    start = taken = 0
    for position, size in enumerate(file.pieces):
        if position > start and taken + size > blocksize:
            yield file._replace(size=taken, part=(start, position), pieces=())
            start, taken = position, 0
        taken += size
    yield file._replace(size=taken, part=(start, len(file.pieces)), pieces=())
