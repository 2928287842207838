"""Open the ledger of a finished run: find its parts, and load the decisions in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from penstock.errors import InputError
from penstock.ledger.query.decisions import Decisions, assemble
from penstock.ledger.store.block_reader import find_blocks, group_by_rules, group_by_size, read_summary
from penstock.ledger.store.fragment import PARQUET
from penstock.ledger.store.ledger_part import LedgerPart, RecordLedgerPart, StoredLedgerPart
from penstock.ledger.store.rules import FILE_NAME, FOLDER_NAME, Rules, read_rules
from penstock.storage.filesystem import filesystem_of
from penstock.storage.run_folder import FOLDER_NAME as RUN_FOLDER

# Size on disk of the blocks that form one part; in memory they take about three times as much.
_PART_BYTES = 1 << 24


@dataclass(frozen=True)
class Ledger:
    """The decisions that a run recorded."""

    run_folder: str
    folder: str
    rules: Rules

    @cached_property
    def parts(self) -> list[LedgerPart]:
        """Return every part, in the order in which documents passed through the pools."""
        filesystem, name = filesystem_of(self.folder)
        paths = sorted(path for path in filesystem.ls(name, detail=False) if path.endswith(PARQUET))
        parts: list[LedgerPart] = [StoredLedgerPart(filesystem.unstrip_protocol(path)) for path in paths]
        records, parameters, _ = find_blocks(self.folder)
        for group in group_by_size(records, _PART_BYTES):
            for summaries in group_by_rules(map(read_summary, group)):
                labels = self.rules.labels_of(summaries[0].about["pool"])
                parts.append(RecordLedgerPart(summaries, labels, parameters))
        return sorted(parts, key=lambda part: part.pool)

    def row_in_file(self, block: str, row: int) -> int:
        """Convert a row of a block to a row of its file; a block may hold only a byte range of the file."""
        return self._rows_before.get(block, 0) + row

    @cached_property
    def _rows_before(self) -> dict[str, int]:
        """Return, for each block read from a byte range of a file, the number of documents in earlier ranges."""
        # Documents in each byte range of a file, by the first byte of the range.
        documents: dict[str, dict[int, int]] = {}
        starts: dict[str, tuple[str, int]] = {}
        for part in self.parts:
            for name, about in part.blocks.items():
                byte_range = about.get("read", {}).get("reader_config", {}).get("part")
                if byte_range is not None:
                    file, start = about["files"][0], int(byte_range[0])
                    starts[name] = file, start
                    counts = documents.setdefault(file, {})
                    counts[start] = counts.get(start, 0) + int(about["count"])
        return {
            name: sum(count for other, count in documents[file].items() if other < start)
            for name, (file, start) in starts.items()
        }

    def shards(self) -> Iterator[Decisions]:
        """Yield the decisions in shards; each shard holds everything that is known of its documents.

        With one pool a shard is one part. With several pools a document may be in several parts, so all parts form one
        shard.
        """
        one_by_one = len({part.pool for part in self.parts}) <= 1
        for group in [[part] for part in self.parts] if one_by_one else [self.parts]:
            yield assemble(group, self.rules.labels)

    def rule_labels(self) -> list[str]:
        """Return the labels of the rules that recorded a verdict, in the order of the stages."""
        named = dict.fromkeys(label for part in self.parts for label in part.rules)
        order = {label: number for number, label in enumerate(self.rules.labels)}
        return sorted(named, key=lambda label: order.get(label.split("/")[0], len(order)))


def find_ledger(run: str) -> Ledger:
    """Open the ledger of a run; ``run`` is its output folder, its run folder or the ledger folder."""
    given = run.rstrip("/")
    for run_folder in (f"{given}/{RUN_FOLDER}", given, given.rpartition("/")[0]):
        folder = f"{run_folder}/{FOLDER_NAME}"
        filesystem, name = filesystem_of(f"{folder}/{FILE_NAME}")
        if run_folder and filesystem.exists(name):
            return Ledger(run_folder, folder, read_rules(folder))
    filesystem, name = filesystem_of(given)
    if not filesystem.exists(name):
        raise InputError(f"{run}: there is no such folder. Pass the output folder of a run.")
    if filesystem.exists(f"{name}/{RUN_FOLDER}"):
        raise InputError(f"{run}: this run kept no ledger. Run it again without --no-ledger (ledger=False).")
    raise InputError(
        f"{run}: no run has written here: the folder contains no {RUN_FOLDER}. Pass the output folder of a run."
    )


def superseded_blocks(ledger: Ledger) -> set[str]:
    """Return the blocks of a first pass over files that a later pass read again in order to decide.

    A workflow may read its input twice: first to compute something from all documents, then to decide about each. Only
    the second pass counts as the documents of the run.
    """
    blocks = [(name, about) for part in ledger.parts for name, about in part.blocks.items() if "read" in about]
    decided = {file for _, about in blocks if "remade_by" not in about for file in about.get("files", ())}
    return {name for name, about in blocks if "remade_by" in about and decided.issuperset(about.get("files", ()))}
