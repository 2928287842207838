"""A task that names files, and the arithmetic of putting files into such tasks."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from penstock.core.task import Task

# What a source writes down of every file of a task, in their order: where it is, and its name below what was given.
_PER_FILE = ("source_files", "source_names")


@dataclass(repr=False)
class FileGroupTask(Task[list[str]]):
    """Some files that are read, or were written, together.

    >>> FileGroupTask("crawl", ["b.jsonl", "a.jsonl"]).num_items
    2
    """

    noun: ClassVar[str] = "files"

    reader_config: dict[str, Any] = field(default_factory=dict)

    @property
    def num_items(self) -> int:
        """How many files."""
        return len(self.data)

    @property
    def num_bytes(self) -> int:
        """The size of the names; the files' content is not in memory."""
        return sum(len(path.encode("utf-8", "surrogateescape")) for path in self.data)

    def select(self, rows: Sequence[int]) -> FileGroupTask:
        """Return a task of only these files, under the same name.

        >>> known = {"source_files": ["/a", "/b"], "source_names": ["a", "b"]}
        >>> FileGroupTask("crawl", ["/a", "/b"], _metadata=known).select([1])._metadata
        {'source_files': ['/b'], 'source_names': ['b']}
        """
        chosen = copy.copy(self)
        chosen.data = [self.data[row] for row in rows]
        # A source says file by file where they are; of files made on the way it is said what they were made of.
        if self._metadata.get("source_files") == self.data:
            kept = {key: [self._metadata[key][row] for row in rows] for key in _PER_FILE if key in self._metadata}
            chosen._metadata = self._metadata | kept
        return chosen

    def excerpt(self, row: int) -> str:
        """Return the name of one file."""
        return self.data[row]

    def validate(self) -> bool:
        """Accept a list of paths only."""
        if not isinstance(self.data, list) or not all(isinstance(path, str) for path in self.data):
            raise TypeError(f"FileGroupTask: data must be a list of path strings, got {self.data!r:.200}")
        return True

    def get_deterministic_id(self) -> str:
        """Return a hash of the file names, so that a new file beside them does not rename this task.

        Where the source says what the files are called below the path it was given, that counts, so that moving
        the whole data set renames nobody either.
        """
        names = self._metadata.get("source_names", self.data)
        return hashlib.sha256("|".join(sorted(names)).encode("utf-8", "surrogateescape")).hexdigest()[:12]


# A place in the files of a task: the number of the file above these bits, the byte or row in that file below them.
PLACE_BITS = 40
# What a reader notes of a batch from several files: which document of the task is the first of which file, in order.
# None: its documents are known by their place, and not by their number.
FILE_STARTS = "file_starts"


class SizedFile(NamedTuple):
    """A file that exists, or a part of one, and how large it is."""

    path: str
    size: int
    # Where it lies below the path the user gave: the same wherever that is.
    name: str = ""
    # Where it may be cut: the sizes of its row groups, decompressed. Empty: anywhere, or nobody looked.
    pieces: tuple[int, ...] = ()
    # The part meant: from the first up to the last byte, or row group. None: all of it.
    part: tuple[int, int] | None = None
    # What an object store says its content is known by, such as an ETag; empty: it says nothing.
    tag: str = ""

    @property
    def part_name(self) -> str:
        """The name, and of a part which.

        >>> SizedFile("/data/a.jsonl", 100, "a.jsonl", part=(0, 100)).part_name
        'a.jsonl[0:100]'
        """
        return self.name if self.part is None else f"{self.name}[{self.part[0]}:{self.part[1]}]"

    @property
    def origin(self) -> str:
        """The folder, or beginning of a URL, that the name continues.

        >>> SizedFile("/data/day1/crawl/a.jsonl", 100, "crawl/a.jsonl").origin
        '/data/day1/'
        """
        return self.path.removesuffix(self.name)

    @property
    def bytes_to_read(self) -> int:
        """How much it is once it is read, as far as is known.

        >>> SizedFile("a.parquet", 10, pieces=(60, 40)).bytes_to_read
        100
        """
        return sum(self.pieces) or self.size


def origin_of(task: Task[Any]) -> str | None:
    """Return the origin (see ``SizedFile``) of what a task holds; None if it does not come from a listed file.

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
    """Put files into groups that are read together, in order.

    With a ``blocksize`` a group closes before it would grow past that many bytes, and part of a file stands alone.

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
    """Cut a file that can be cut anywhere into parts of one block.

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
    """Cut a file between its row groups, as many together as fit into a block once they are read.

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
