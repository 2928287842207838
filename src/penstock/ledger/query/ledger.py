"""Opening the ledger of a run that is over: which pieces there are, what each is about, and all of it in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from penstock.errors import InputError
from penstock.ledger.query.decisions import Decisions, assemble
from penstock.ledger.record.run_ledger import FOLDER_NAME
from penstock.ledger.store.block_reader import Summary, alike, find_notes, grouped, read_note, read_summary
from penstock.ledger.store.fragment import ID, PARQUET, SCORE, Fragment, column_names, columns_of, describe, to_table
from penstock.ledger.store.rules import FILE_NAME, Rules, read_rules
from penstock.storage.filesystem import filesystem_of
from penstock.storage.run_folder import FOLDER_NAME as RUN_FOLDER

# Notes are read so many bytes at a time; they are a third of what they are in memory.
_PIECE_BYTES = 1 << 24


class LedgerPart(ABC):
    """A part of a ledger."""

    names: list[str]
    # In the order of their bits, each with its parameters; and blocks with where they come from.
    rules: dict[str, dict[str, Any]]
    blocks: dict[str, dict[str, Any]]
    num_rows: int

    @property
    def pool(self) -> int:
        """Which pool of workers wrote it."""
        return min((int(about["pool"]) for about in self.blocks.values()), default=0)

    @abstractmethod
    def read(self, columns: list[str]) -> pa.Table:
        """Read some columns; those it does not have are left out."""

    @abstractmethod
    def table(self) -> pa.Table:
        """Return all of it, as a table that describes itself."""

    def read_facts(self) -> pa.Table:
        """Read everything but ids and scores, which are read when somebody asks for them."""
        return self.read([name for name in self.names if not name.startswith(SCORE) and name != ID])


class StoredLedgerPart(LedgerPart):
    """A Parquet file."""

    def __init__(self, path: str) -> None:
        import pyarrow.parquet as pq

        filesystem, name = filesystem_of(path)
        self._file = pq.ParquetFile(name, filesystem=filesystem)
        schema = self._file.schema_arrow
        self.names = schema.names
        self.num_rows = int(self._file.metadata.num_rows)
        described = describe(schema)
        self.rules, self.blocks = described["rules"], described["blocks"]

    def read(self, columns: list[str]) -> pa.Table:
        """Read some columns; those it does not have are left out."""
        return self._file.read(columns=[name for name in columns if name in self.names])

    def table(self) -> pa.Table:
        """Return all of it, as a table that describes itself."""
        return self._file.read()


class RecordLedgerPart(LedgerPart):
    """Notes of blocks that are alike."""

    def __init__(
        self, noted: Sequence[Summary], labels: Sequence[str], parameters: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._notes = [summary.note for summary in noted]
        self._labels = labels
        self._parameters = parameters
        scored = {label for summary in noted for label in summary.scored}
        rules, words = noted[0].rules, noted[0].words
        self.names = column_names(rules, words, scored)
        self.num_rows = sum(summary.documents for summary in noted)
        self.rules = {label: dict(parameters.get(label, {})) for label in rules}
        self.blocks = {summary.block: summary.about for summary in noted}

    def read(self, columns: list[str]) -> pa.Table:
        """Read some columns; those it does not have are left out."""
        there = [name for name in columns if name in self.names]
        return pa.table(columns_of(_fragments_of(self), self._labels, there))

    def table(self) -> pa.Table:
        """Return all of it, as a table that describes itself."""
        return to_table(_fragments_of(self), self._labels, self._parameters)

    def fragments(self) -> list[Fragment]:
        """Return its blocks."""
        return [read_note(note) for note in self._notes]


@lru_cache(maxsize=2)
def _fragments_of(piece: RecordLedgerPart) -> list[Fragment]:
    """Read a piece; who asks for a column of it soon asks for another."""
    return piece.fragments()


@dataclass(frozen=True)
class Ledger:
    """All that a run has written down about its decisions."""

    run_folder: str
    folder: str
    rules: Rules

    @cached_property
    def pieces(self) -> list[LedgerPart]:
        """Return every part, in the order in which documents went through the pools."""
        filesystem, name = filesystem_of(self.folder)
        paths = sorted(path for path in filesystem.ls(name, detail=False) if path.endswith(PARQUET))
        pieces: list[LedgerPart] = [StoredLedgerPart(filesystem.unstrip_protocol(path)) for path in paths]
        notes, parameters, _ = find_notes(self.folder)
        for group in grouped(notes, _PIECE_BYTES):
            for noted in alike(map(read_summary, group)):
                pieces.append(RecordLedgerPart(noted, self.rules.labels_of(noted[0].about["pool"]), parameters))
        return sorted(pieces, key=lambda piece: piece.pool)

    def row_in_file(self, block: str, row: int) -> int:
        """Return the row counted from the beginning of the file, of which a block may be only a part."""
        return self._rows_before.get(block, 0) + row

    @cached_property
    def _rows_before(self) -> dict[str, int]:
        """Return for each block from a part of a file how many documents the parts before it have."""
        parts: dict[str, dict[int, int]] = {}
        begins: dict[str, tuple[str, int]] = {}
        for piece in self.pieces:
            for name, about in piece.blocks.items():
                part = about.get("read", {}).get("reader_config", {}).get("part")
                if part is not None:
                    file, start = about["files"][0], int(part[0])
                    begins[name] = file, start
                    counts = parts.setdefault(file, {})
                    counts[start] = counts.get(start, 0) + int(about["count"])
        return {
            name: sum(count for other, count in parts[file].items() if other < start)
            for name, (file, start) in begins.items()
        }

    def shards(self) -> Iterator[Decisions]:
        """Give out the decisions in parts that hold all there is about their documents, each small if possible."""
        one_by_one = len({piece.pool for piece in self.pieces}) <= 1
        for group in [[piece] for piece in self.pieces] if one_by_one else [self.pieces]:
            yield assemble(group, self.rules.labels)

    def rule_labels(self) -> list[str]:
        """Return the rules that decided something, in order."""
        named = dict.fromkeys(label for piece in self.pieces for label in piece.rules)
        order = {label: number for number, label in enumerate(self.rules.labels)}
        return sorted(named, key=lambda label: order.get(label.split("/")[0], len(order)))


def find_ledger(run: str) -> Ledger:
    """Open the ledger of a run, given its output folder, its run folder or the ledger itself."""
    given = run.rstrip("/")
    for run_folder in (f"{given}/{RUN_FOLDER}", given, given.rpartition("/")[0]):
        folder = f"{run_folder}/{FOLDER_NAME}"
        filesystem, name = filesystem_of(f"{folder}/{FILE_NAME}")
        if run_folder and filesystem.exists(name):
            return Ledger(run_folder, folder, read_rules(folder))
    filesystem, name = filesystem_of(given)
    if not filesystem.exists(name):
        raise InputError(f"{run}: there is no such folder. Give the output folder of a run.")
    if filesystem.exists(f"{name}/{RUN_FOLDER}"):
        raise InputError(f"{run}: this run kept no ledger. Run it again without --no-ledger (ledger=False).")
    raise InputError(
        f"{run}: no run has written here: there is no {RUN_FOLDER} in it. Give the output folder of a run."
    )
