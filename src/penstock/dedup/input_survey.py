"""Survey the input before a run: list all files, and sample a few to estimate the amount of text and check columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.files import SizedFile
from penstock.dedup.document_ids import FileTable
from penstock.errors import InputError, MissingColumnError
from penstock.storage.compression import compression_of
from penstock.storage.filesystem import open_input, open_stored
from penstock.storage.input_files import FileMark, mark_files

# Typical ratio of text size to compressed size.
_UNPACKED = {".gz": 4, ".zst": 4, ".bz2": 5, ".xz": 5}
# The number of documents is estimated from this number of files, and from this number of bytes of each.
_SAMPLED_FILES = 16
_SAMPLED_BYTES = 1 << 18


@dataclass(frozen=True)
class InputSurvey:
    """The files of an input, with estimates of the amount of text and the number of documents."""

    table: FileTable
    # Identify the files: other names, sizes or contents mean another input.
    marks: list[FileMark]
    # Estimates.
    text_bytes: int
    documents: int

    @property
    def files(self) -> list[tuple[str, int, str]]:
        """Names, sizes and content hashes, which do not change when the whole input is moved."""
        return [(mark.name, mark.size, mark.content) for mark in self.marks]


class _Sample(NamedTuple):
    """Sizes and counts of a file, or of the beginning of a file."""

    stored_bytes: float
    text_bytes: int
    documents: int
    # The columns, only if the text column is not among them.
    others: list[str]


def look_at(
    files: Sequence[SizedFile], filetype: str, text_field: str, parameter: str, options: dict[str, Any] | None
) -> InputSurvey:
    """Survey some files. Raise ``MissingColumnError`` if none of the sampled files has the text column."""
    sample = _sample_parquet if filetype == "parquet" else _sample_jsonl
    samples = [sample(file, text_field, options) for file in files[:: max(1, len(files) // _SAMPLED_FILES)]]
    without = [one.others for one in samples if one.others]
    if without and len(without) == len([one for one in samples if one.documents]):
        raise MissingColumnError("read", text_field, without[0], parameter)
    stored = sum(one.stored_bytes for one in samples)
    text = sum(one.text_bytes for one in samples)
    text_bytes = int(sum(file.size for file in files) * text / max(1, stored))
    return InputSurvey(
        FileTable.of(files),
        mark_files(files, options),
        text_bytes,
        max(1, int(text_bytes * sum(one.documents for one in samples) / max(1, text))),
    )


def _sample_parquet(file: SizedFile, text_field: str, options: dict[str, Any] | None) -> _Sample:
    try:
        with open_stored(file.path, options) as stream:
            whole = pq.ParquetFile(stream)
            metadata, columns = whole.metadata, whole.schema_arrow.names
    except pa.ArrowInvalid:
        return _damaged(file)
    unpacked = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return _Sample(file.size, unpacked, metadata.num_rows, [] if text_field in columns else columns)


def _sample_jsonl(file: SizedFile, text_field: str, options: dict[str, Any] | None) -> _Sample:
    try:
        with open_input(file.path, options) as stream:
            beginning = stream.read(_SAMPLED_BYTES)
    except InputError:
        return _damaged(file)
    factor = _UNPACKED.get(compression_of(file.path) or "", 1)
    count = beginning.count(b"\n")
    has_text = count == 0 or json.dumps(text_field, ensure_ascii=False).encode() in beginning
    return _Sample(len(beginning) / factor, len(beginning), count, [] if has_text else _keys(beginning))


def _keys(beginning: bytes) -> list[str]:
    """Return the keys of the first document; an empty list if it cannot be parsed."""
    try:
        return list(msgspec.json.decode(beginning.partition(b"\n")[0], type=dict[str, msgspec.Raw]))
    except msgspec.DecodeError:
        return []


def _damaged(file: SizedFile) -> _Sample:
    """Return an empty sample for a file that cannot be read; the reader reports the error later."""
    return _Sample(file.size, file.size, 0, [])
