"""Index of kept documents: a new crawl is compared with it and added to it, without reading the old data again.

An index is a folder. Every added crawl is a generation in it, with hashes of texts, hashes of bands, and signatures.
``index.json`` lists the valid generations, and is replaced atomically when a run has succeeded. So a run that is
stopped, or that could not read a file, leaves the index unchanged. Running it again resumes it, or changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from penstock.core.files import PLACE_BITS, FileGroupTask
from penstock.core.stage import ProcessingStage
from penstock.dedup.arrays import load_array, save_array
from penstock.dedup.candidates import without
from penstock.dedup.document_ids import INDEXED, FileTable
from penstock.dedup.exact import EXACT_RECORD, partition_of
from penstock.dedup.input_survey import InputSurvey
from penstock.dedup.phases import LISTING, exists, listed
from penstock.dedup.shuffle import Records, read_span, write_records
from penstock.dedup.signing import BAND_RECORD
from penstock.dedup.stored_stage import StoredStage
from penstock.dedup.work_folder import digest_of
from penstock.errors import InputError
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import open_stored

_CONTENTS = "index.json"
EXACT, BANDS, SIGNATURES = "exact", "bands", "signatures"
# Folder inside the work folder that lists the added files.
INDEXED_FILES = "indexed"


@dataclass(frozen=True)
class Generation:
    """A crawl that was added to an index."""

    # Derived from its files and the settings, so the same crawl is never added twice.
    name: str
    files: tuple[str, ...]
    runs: tuple[str, ...]
    documents: int


@dataclass(frozen=True)
class Index:
    """An index on disk: its settings and its generations, oldest first."""

    path: str
    settings: dict[str, Any]
    generations: tuple[Generation, ...] = ()

    @classmethod
    def open(cls, path: str, settings: dict[str, Any]) -> Index:
        """Open an index, or return an empty one. Raise ``InputError`` if it was made with other settings."""
        path = path.rstrip("/")
        if not exists(f"{path}/{_CONTENTS}"):
            return cls(path, settings)
        with open_stored(f"{path}/{_CONTENTS}") as stream:
            contents = json.loads(stream.read())
        made_with = contents["settings"]
        other = [f"{key}={made_with.get(key)!r}" for key in settings if made_with.get(key) != settings[key]]
        if other:
            raise InputError(
                f"{path}: this index was made with {', '.join(other)}. Give the same, or begin a new index."
            )
        return cls(path, settings, tuple(_generation(entry) for entry in contents["generations"]))

    @classmethod
    def for_run(cls, path: str | None, settings: dict[str, Any], survey: InputSurvey) -> tuple[Index | None, str]:
        """Return the index as it was before this run, and the name of the generation that this run adds."""
        name = digest_of({"files": survey.files, **settings})
        if path is None:
            return None, name
        index = cls.open(path, settings)
        # Older versions derived the name from file names and sizes only; do not add the same crawl under both names.
        former = digest_of({"files": [(mark.name, mark.size) for mark in survey.marks], **settings})
        if former in {generation.name for generation in index.generations}:
            name = former
        return index.before(name), name

    def before(self, name: str) -> Index:
        """Return the index without a generation and all later ones; unchanged if it does not have that generation."""
        names = [generation.name for generation in self.generations]
        return replace(self, generations=self.generations[: names.index(name)]) if name in names else self

    def publish(self, name: str, table: FileTable, work_folder: str) -> None:
        """Add a complete generation to ``index.json``. ``self`` is the index as it was before this run."""
        now = Index.open(self.path, self.settings)
        if now.before(name) != self:
            raise InputError(
                f"{self.path}: another run has added to this index meanwhile; nothing of this run was added. "
                "Run it again, one at a time."
            )
        if not exists(f"{work_folder}/{INDEXED_FILES}/{LISTING}"):
            return  # there was nothing to read
        indexed = listed(f"{work_folder}/{INDEXED_FILES}/{LISTING}")
        documents = sum(indexed["counts"]["documents"].values())
        added = Generation(name, table.names, tuple(sorted(indexed["files"])), documents)
        # The same crawl may have been added before, and others after it.
        later = now.generations[len(self.generations) + 1 :]
        replace(self, generations=(*self.generations, added, *later)).save()

    def save(self) -> None:
        """Write ``index.json``."""
        contents = {"settings": self.settings, "generations": [asdict(part) for part in self.generations]}
        with atomic_write(f"{self.path}/{_CONTENTS}") as stream:
            stream.write(json.dumps(contents, indent=1).encode())

    def runs(self, kind: str) -> list[str]:
        """Return the paths of all files of one kind: ``EXACT``, ``BANDS`` or ``SIGNATURES``."""
        return [f"{self.path}/{part.name}/{kind}/{run}" for part in self.generations for run in part.runs]

    @property
    def file_names(self) -> tuple[str, ...]:
        """Names of the input files of all generations, by file number."""
        return tuple(name for generation in self.generations for name in generation.files)

    @property
    def documents(self) -> int:
        """Number of documents in the index."""
        return sum(generation.documents for generation in self.generations)


class AddToIndex(StoredStage, ProcessingStage[FileGroupTask, FileGroupTask]):
    """Write the hashes and signatures of the kept documents of one task into the index."""

    name = "add_to_index"
    reusable_process = True
    preload = ("penstock.dedup.preload_exact",)

    def __init__(
        self, index: Index, generation: str, signed: str, removed_list: str, partitions: int, rounds: Sequence[str] = ()
    ) -> None:
        self.index = index
        self.generation = generation
        self.signed = signed
        self.removed_list = removed_list
        self.partitions = partitions
        # Folders of the band hashes. If empty, only hashes of texts are indexed.
        self.rounds = list(rounds)

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Add the documents of one file of hashes."""
        [source] = task.data
        run = source.rpartition("/")[2]
        removed, target = load_array(self.removed_list), f"{self.index.path}/{self.generation}"
        exact_source = f"{self.signed}/{EXACT}/{run}" if self.rounds else source
        exact = without(read_span([exact_source], 0, 1, EXACT_RECORD), removed)
        if self.rounds:
            sources = [f"{self.signed}/{bands}/{run}" for bands in self.rounds]
            bands = self._known(without(read_span(sources, 0, 1, BAND_RECORD), removed))
            self._write(f"{target}/{BANDS}/{run}", bands, "hash")
            signed = without(load_array(f"{self.signed}/{SIGNATURES}/{run}"), removed)
            save_array(f"{target}/{SIGNATURES}/{run}", self._known(signed))
        self._write(f"{target}/{EXACT}/{run}", self._known(exact), "high")
        return FileGroupTask(task.dataset_name, [run], _metadata={"counts": {"documents": {0: len(exact)}}})

    def _known(self, records: Records) -> Records:
        """Return records for the index: ids are negative, and ranks make every later run keep the documents."""
        records = records.copy()
        records["document"] += INDEXED + (len(self.index.file_names) << PLACE_BITS)
        records["rank"] = -np.inf
        return records

    def _write(self, path: str, records: Records, field: str) -> None:
        write_records(path, records, partition_of(records[field], self.partitions), self.partitions)


def _generation(entry: dict[str, Any]) -> Generation:
    return Generation(entry["name"], tuple(entry["files"]), tuple(entry["runs"]), entry["documents"])
