"""What there is to read: all names and sizes, and from a look into a few files how much text, and which columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.files import SizedFile
from penstock.dedup.places import FileTable
from penstock.errors import InputError, MissingColumnError
from penstock.storage.compression import compression_of
from penstock.storage.filesystem import open_input, open_stored
from penstock.storage.input_files import FileMark, mark_files

# A compressed file holds about so much more text than it has bytes.
_UNPACKED = {".gz": 4, ".zst": 4, ".bz2": 5, ".xz": 5}
# To tell about how many documents there are, so many files are looked into, so far.
_FILES_LOOKED_INTO = 16
_BYTES_LOOKED_AT = 1 << 18


@dataclass(frozen=True)
class InputSurvey:
    """What there is to read."""

    table: FileTable
    # What the files are known by: other names, sizes or contents are another input.
    marks: list[FileMark]
    # About how much text, and how many documents.
    text_bytes: int
    documents: int

    @property
    def files(self) -> list[tuple[str, int, str]]:
        """Names, sizes and contents, which stay the same when all of it is moved."""
        return [(mark.name, mark.size, mark.content) for mark in self.marks]


class _Look(NamedTuple):
    """What was seen in a file, or in its beginning."""

    stored_bytes: float
    text_bytes: int
    documents: int
    # Its columns, if the one with the texts is not among them.
    others: list[str]


def look_at(
    files: Sequence[SizedFile], filetype: str, text_field: str, parameter: str, options: dict[str, Any] | None
) -> InputSurvey:
    """Look at some files; if none of those looked into has the column of texts, say so before anything is done."""
    look_into = _look_into_parquet if filetype == "parquet" else _look_into_jsonl
    looks = [look_into(file, text_field, options) for file in files[:: max(1, len(files) // _FILES_LOOKED_INTO)]]
    without = [look.others for look in looks if look.others]
    if without and len(without) == len([look for look in looks if look.documents]):
        raise MissingColumnError("read", text_field, without[0], parameter)
    stored = sum(look.stored_bytes for look in looks)
    text = sum(look.text_bytes for look in looks)
    text_bytes = int(sum(file.size for file in files) * text / max(1, stored))
    return InputSurvey(
        FileTable.of(files),
        mark_files(files, options),
        text_bytes,
        max(1, int(text_bytes * sum(look.documents for look in looks) / max(1, text))),
    )


def _look_into_parquet(file: SizedFile, text_field: str, options: dict[str, Any] | None) -> _Look:
    try:
        with open_stored(file.path, options) as stream:
            whole = pq.ParquetFile(stream)
            metadata, columns = whole.metadata, whole.schema_arrow.names
    except pa.ArrowInvalid:
        return _damaged(file)
    unpacked = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return _Look(file.size, unpacked, metadata.num_rows, [] if text_field in columns else columns)


def _look_into_jsonl(file: SizedFile, text_field: str, options: dict[str, Any] | None) -> _Look:
    try:
        with open_input(file.path, options) as stream:
            beginning = stream.read(_BYTES_LOOKED_AT)
    except InputError:
        return _damaged(file)
    factor = _UNPACKED.get(compression_of(file.path) or "", 1)
    count = beginning.count(b"\n")
    has_text = count == 0 or json.dumps(text_field, ensure_ascii=False).encode() in beginning
    return _Look(len(beginning) / factor, len(beginning), count, [] if has_text else _keys(beginning))


def _keys(beginning: bytes) -> list[str]:
    """Return the keys of the first document; none if it cannot be read."""
    try:
        return list(msgspec.json.decode(beginning.partition(b"\n")[0], type=dict[str, msgspec.Raw]))
    except msgspec.DecodeError:
        return []


def _damaged(file: SizedFile) -> _Look:
    """Say nothing of a file that cannot be read: its reader will."""
    return _Look(file.size, file.size, 0, [])
