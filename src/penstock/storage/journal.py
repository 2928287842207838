"""Checkpoint journal: an append-only file of completed work that stays valid if a crash truncates it anywhere.

The file begins with a line that names its format. Records in msgpack with a fixed schema follow, so reading a file from
an untrusted source runs no code. Reading stops at the first incomplete record, and writing continues from there: a
truncated tail loses at most the last record.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from penstock.core.rejection import Rejection
from penstock.errors import CheckpointError
from penstock.storage.input_files import FileMark
from penstock.storage.records import framed, read_records

FILE_NAME = "journal.penstock"
MAGIC = b"penstock journal 2\n"
# Text that may be invalid Unicode, such as a file name.
_Text = bytes
_Plain = _Text | int | float | bool | None


@dataclass(frozen=True)
class DoneGroup:
    """Source tasks that were completed together, and their results."""

    sources: tuple[str, ...]
    # Tasks, serialised by ``task_records``.
    outputs: tuple[bytes, ...] = ()
    # Files that were written for them.
    files: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()


@dataclass(frozen=True)
class InputListing:
    """The input of a run: its files, and for each source task the numbers of the files it reads."""

    files: tuple[FileMark, ...] = ()
    sources: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def marks_of(self, source: str) -> list[FileMark]:
        """Return the files that a source task reads."""
        return [self.files[number] for number in self.sources[source]]


@dataclass(frozen=True)
class Withdrawal:
    """Source tasks whose input has changed since they started, and output files made from the old input."""

    sources: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class _Begun(msgspec.Struct, tag="begun", array_like=True):
    fingerprint: dict[str, str]


class _Done(msgspec.Struct, tag="done", array_like=True):
    # Per group: sources, outputs, files, rejections.
    groups: list[tuple[list[_Text], list[bytes], list[_Text], list[dict[str, _Plain]]]]


class _Input(msgspec.Struct, tag="input", array_like=True):
    # Per file: path, name, size, times, content.
    files: list[tuple[_Text, _Text, int, int, int, str]]
    sources: list[tuple[_Text, list[int]]]
    withdrawn_sources: list[_Text]
    withdrawn_files: list[_Text]
    files_of_others: list[_Text]


class _Withdrawn(msgspec.Struct, tag="withdrawn", array_like=True):
    """The files named by the preceding input record have been removed."""


_Record = _Begun | _Done | _Input | _Withdrawn
_decode = msgspec.msgpack.Decoder(_Record).decode


class Journal:
    """The records of one checkpoint folder. The first record identifies the pipeline they belong to."""

    def __init__(self, folder: str | Path, fingerprint: dict[str, str]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE_NAME
        # Groups by each of their sources.
        self.done: dict[str, DoneGroup] = {}
        # The latest listing of the input; None if no run has listed it yet.
        self.input: InputListing | None = None
        # Names of files in the output folder that existed before the first run.
        self.files_of_others: tuple[str, ...] = ()
        # Withdrawn work whose output files may not be removed yet.
        self.to_remove: Withdrawal | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            whole = self._load(fingerprint)
            self._stream: IO[bytes] = self.path.open("r+b" if self.path.exists() else "w+b")
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {folder}: cannot be opened: {error}. checkpoint_path is a folder on this machine."
            ) from error
        self.resumed = whole > 0
        self._stream.truncate(whole)
        self._stream.seek(whole)
        if not whole:
            try:
                self._stream.write(MAGIC)
                self._append(_Begun(fingerprint))
            except CheckpointError:
                self.close()
                raise

    def commit(self, groups: Sequence[DoneGroup]) -> None:
        """Record groups as done, atomically: after a crash all of them are recorded, or none."""
        self._append(_Done([_stored_group(group) for group in groups]))
        self._add(groups)

    def list_input(
        self, listing: InputListing, withdrawal: Withdrawal | None = None, files_of_others: Sequence[str] = ()
    ) -> None:
        """Record the input of the run that starts now, and the work that is withdrawn because files changed."""
        withdrawal = withdrawal or Withdrawal()
        self._append(
            _Input(
                [(_text(f.path), _text(f.name), f.size, f.modified, f.changed, f.content) for f in listing.files],
                [(_text(source), list(numbers)) for source, numbers in listing.sources.items()],
                _texts(withdrawal.sources),
                _texts(withdrawal.files),
                _texts(files_of_others),
            )
        )
        self._take_input(listing, withdrawal, files_of_others)

    def removed(self) -> None:
        """Record that the withdrawn files have been removed."""
        self._append(_Withdrawn())
        self.to_remove = None

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # write errors have been reported before
            self._stream.close()

    def _append(self, record: _Record) -> None:
        try:
            self._stream.write(framed(msgspec.msgpack.encode(record)))
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self.path.parent}: completed work cannot be recorded: {error.strerror}. What was "
                "recorded before is intact. Free some space there, and run the same command again to resume."
            ) from error

    def _load(self, fingerprint: dict[str, str]) -> int:
        """Read all complete records, and return their size in bytes."""
        if not self.path.exists():
            return 0
        position = 0
        with self.path.open("rb") as stream:
            self._require_format(stream.read(len(MAGIC)))
            for number, (body, end) in enumerate(read_records(stream)):
                try:
                    self._take(_decode(body), number, fingerprint)
                except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, IndexError) as error:
                    raise CheckpointError(
                        f"{self.path}: record {number + 1} is complete, but Penstock did not write it ({error}). "
                        f"{self._start_over}"
                    ) from error
                position = end
        return position

    def _require_format(self, beginning: bytes) -> None:
        if MAGIC.startswith(beginning) or not beginning.strip(b"\0"):
            return  # the right format, or the rest of a new file after a crash
        raise CheckpointError(
            f"{self.path}: not a journal of this version of Penstock. An older version wrote journals that cannot be "
            f"read without running code in them. {self._start_over}"
        )

    @property
    def _start_over(self) -> str:
        return f"Use another checkpoint_path, or delete {self.folder} to start over."

    def _take(self, record: _Record, number: int, fingerprint: dict[str, str]) -> None:
        if isinstance(record, _Begun) != (number == 0):
            raise CheckpointError(f"{self.path}: record {number + 1} is out of order. {self._start_over}")
        match record:
            case _Begun(theirs):
                _compare(self.folder, theirs, fingerprint)
            case _Done(groups):
                self._add([group for group in (_group(*stored) for stored in groups) if group.sources])
            case _Input():
                files = tuple(FileMark(_str(p), _str(n), s, m, c, content) for p, n, s, m, c, content in record.files)
                sources = {_str(source): tuple(numbers) for source, numbers in record.sources}
                if any(not 0 <= number < len(files) for numbers in sources.values() for number in numbers):
                    raise CheckpointError(f"{self.path}: a list of input files is damaged. {self._start_over}")
                withdrawal = Withdrawal(_strs(record.withdrawn_sources), _strs(record.withdrawn_files))
                self._take_input(InputListing(files, sources), withdrawal, _strs(record.files_of_others))
            case _Withdrawn():
                self.to_remove = None

    def _add(self, groups: Sequence[DoneGroup]) -> None:
        self.done.update({source: group for group in groups for source in group.sources})

    def _take_input(self, listing: InputListing, withdrawal: Withdrawal, files_of_others: Sequence[str]) -> None:
        self.input = listing
        self.files_of_others = tuple(files_of_others)
        for source in withdrawal.sources:
            self.done.pop(source, None)
        self.to_remove = withdrawal if withdrawal != Withdrawal() else None


def _stored_group(group: DoneGroup) -> Any:  # noqa: ANN401 - a tuple, as the schema has it
    rejections = [{name: _stored(value) for name, value in letter.to_dict().items()} for letter in group.rejections]
    return _texts(group.sources), list(group.outputs), _texts(group.files), rejections


def _group(
    sources: list[_Text], outputs: list[bytes], files: list[_Text], rejections: list[dict[str, _Plain]]
) -> DoneGroup:
    letters = [
        {name: _str(value) if isinstance(value, bytes) else value for name, value in letter.items()}
        for letter in rejections
    ]
    return DoneGroup(_strs(sources), tuple(outputs), _strs(files), msgspec.convert(letters, tuple[Rejection, ...]))


def _stored(value: Any) -> Any:  # noqa: ANN401 - a field of a rejection
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> _Text:
    return text.encode("utf-8", "surrogatepass")


def _texts(texts: Sequence[str]) -> list[_Text]:
    return [_text(text) for text in texts]


def _str(text: _Text) -> str:
    return text.decode("utf-8", "surrogatepass")


def _strs(texts: Sequence[_Text]) -> tuple[str, ...]:
    return tuple(_str(text) for text in texts)


def _compare(folder: Path, theirs: dict[str, str], ours: dict[str, str]) -> None:
    for key in [*theirs, *(key for key in ours if key not in theirs)]:
        if theirs.get(key) != ours.get(key):
            raise CheckpointError(
                f"checkpoint {folder} belongs to another run: {key} was {theirs.get(key, 'absent')}, now it is "
                f"{ours.get(key, 'absent')}. Use another checkpoint_path, or delete this folder to start over."
            )
