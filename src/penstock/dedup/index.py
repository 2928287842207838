"""An index of the documents that were kept: a new crawl is compared with it, and added to it; old data is not read.

It is a folder. Every crawl that was added is a generation in it, with hashes of texts, hashes of bands, and signatures;
``index.json`` says which generations count, and is replaced as a whole when a run has ended well. So a run that is
stopped, or that could not read a file, leaves the index as it was, and the same run again goes on, or changes nothing.
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
from penstock.dedup.exact import EXACT_RECORD, partition_of
from penstock.dedup.input_survey import InputSurvey
from penstock.dedup.phases import LISTING, exists, listed
from penstock.dedup.places import INDEXED, FileTable
from penstock.dedup.shuffle import Records, read_span, write_records
from penstock.dedup.signing import BAND_RECORD
from penstock.dedup.work_folder import digest_of
from penstock.errors import InputError
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import open_stored

_CONTENTS = "index.json"
EXACT, BANDS, SIGNATURES = "exact", "bands", "signatures"
# Where in a workplace it is listed what was added.
INDEXED_FILES = "indexed"


@dataclass(frozen=True)
class Generation:
    """A crawl that was added."""

    # Follows from its files and the settings: the same crawl is never added twice.
    name: str
    files: tuple[str, ...]
    runs: tuple[str, ...]
    documents: int


@dataclass(frozen=True)
class Index:
    """What is known of documents kept earlier."""

    path: str
    settings: dict[str, Any]
    generations: tuple[Generation, ...] = ()

    @classmethod
    def open(cls, path: str, settings: dict[str, Any]) -> Index:
        """Open an index, or begin one; an index is good only for the settings it was made with."""
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
    def for_run(cls, path: str | None, settings: dict[str, Any], extent: InputSurvey) -> tuple[Index | None, str]:
        """Return what is known from earlier runs, without this one, and the name of what this one adds."""
        name = digest_of({"files": extent.files, **settings})
        if path is None:
            return None, name
        index = cls.open(path, settings)
        # Generations used to be named after names and sizes alone; the same crawl must not be added under both names.
        former = digest_of({"files": [(mark.name, mark.size) for mark in extent.marks], **settings})
        if former in {generation.name for generation in index.generations}:
            name = former
        return index.before(name), name

    def before(self, name: str) -> Index:
        """Return the index as it was before a generation was added; the same if it was not."""
        names = [generation.name for generation in self.generations]
        return replace(self, generations=self.generations[: names.index(name)]) if name in names else self

    def publish(self, name: str, table: FileTable, workplace: str) -> None:
        """Let a generation count, now that all of it is there: this is the index as it was before."""
        now = Index.open(self.path, self.settings)
        if now.before(name) != self:
            raise InputError(
                f"{self.path}: another run has added to this index meanwhile; nothing of this run was added. "
                "Run it again, one at a time."
            )
        if not exists(f"{workplace}/{INDEXED_FILES}/{LISTING}"):
            return  # there was nothing to read
        indexed = listed(f"{workplace}/{INDEXED_FILES}/{LISTING}")
        documents = sum(indexed["counts"]["documents"].values())
        added = Generation(name, table.names, tuple(sorted(indexed["files"])), documents)
        # The same crawl may have been added before, and others after it.
        later = now.generations[len(self.generations) + 1 :]
        replace(self, generations=(*self.generations, added, *later)).save()

    def save(self) -> None:
        """Let this count from now on."""
        contents = {"settings": self.settings, "generations": [asdict(part) for part in self.generations]}
        with atomic_write(f"{self.path}/{_CONTENTS}") as stream:
            stream.write(json.dumps(contents, indent=1).encode())

    def runs(self, kind: str) -> list[str]:
        """Return the files of one kind."""
        return [f"{self.path}/{part.name}/{kind}/{run}" for part in self.generations for run in part.runs]

    @property
    def file_names(self) -> tuple[str, ...]:
        """What the files were called, by their numbers."""
        return tuple(name for generation in self.generations for name in generation.files)

    @property
    def documents(self) -> int:
        """How many documents are known."""
        return sum(generation.documents for generation in self.generations)


class AddToIndex(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Writes into the index what was written down about the documents of one task, if they stay."""

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
        # Where the bands are; without any, only texts are indexed.
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
        """Return records as the next run will see them: of documents that stay whatever comes."""
        records = records.copy()
        records["document"] += INDEXED + (len(self.index.file_names) << PLACE_BITS)
        records["rank"] = -np.inf
        return records

    def _write(self, path: str, records: Records, field: str) -> None:
        write_records(path, records, partition_of(records[field], self.partitions), self.partitions)


def _generation(entry: dict[str, Any]) -> Generation:
    return Generation(entry["name"], tuple(entry["files"]), tuple(entry["runs"]), entry["documents"])
