"""Exact deduplication as a workflow: documents with the same text, of which one stays."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

from penstock.core.executor import Executor
from penstock.core.pipeline import Pipeline
from penstock.core.sizes import human_bytes
from penstock.core.stage import ProcessingStage
from penstock.core.workflow import WorkflowBase, WorkflowRunResult
from penstock.dedup.exact import EXACT_RECORD, FindExactDuplicates, HashTexts
from penstock.dedup.inputs import Input, writer
from penstock.dedup.keep import parse_keep
from penstock.dedup.outcome import Conclude
from penstock.dedup.phases import Again, Phase
from penstock.dedup.removal import RemoveDocuments
from penstock.dedup.workplace import Workplace, memory_and_workers

# Measured: a record is held about so many times while a partition is sorted.
_TIMES_RECORD = 5
_MEAN_DOCUMENT_BYTES = 500
_FEWEST_PARTITIONS = 4


class ExactDeduplicationWorkflow(WorkflowBase):
    """Finds documents with the same text, and removes all of them but one if asked to.

    Texts are compared by a 128-bit hash; with ``normalize_text`` after Unicode composition, lower case and single
    spaces. ``keep`` is as for the fuzzy workflow, "first" by default. Written: ``<output_path>/ExactDuplicateIds`` (id,
    kept id, similarity 1), ``exact_id_generator.json`` (which id is which document), with ``perform_removal`` also
    ``deduplicated/``.
    """

    def __init__(
        self,
        output_path: str,
        input_path: str | Sequence[str] | None = None,
        input_filetype: str = "parquet",
        input_blocksize: int | str | None = None,
        identification_batchsize: int = 1,
        input_file_extensions: Sequence[str] | None = None,
        read_kwargs: dict[str, Any] | None = None,
        write_kwargs: dict[str, Any] | None = None,
        assign_id: bool = True,
        id_field: str | None = None,
        text_field: str = "text",
        normalize_text: bool = False,
        perform_removal: bool = False,
        total_nparts: int | None = None,
        *,
        keep: str | Sequence[str] = "first",
        memory_budget: int | str | None = None,
        cache_path: str | None = None,
        output_filetype: str | None = None,
        show_progress: bool = True,
    ) -> None:
        if input_path is None:
            raise ValueError("ExactDeduplicationWorkflow: input_path is missing: files or folders to read.")
        self.output_path = output_path.rstrip("/")
        self.cache_path = (cache_path or f"{self.output_path}/_penstock/dedup").rstrip("/")
        self.input = Input(input_path, input_filetype, input_blocksize, input_file_extensions, read_kwargs)
        self.write_kwargs = dict(write_kwargs or {})
        self.text_field = text_field
        self.normalize_text = normalize_text
        self.perform_removal = perform_removal
        self.total_nparts = total_nparts
        self.keep = parse_keep(keep)
        self.memory_budget = memory_budget
        self.output_filetype = output_filetype or input_filetype
        self.show_progress = show_progress
        # Documents are known by their place, whatever ids they bring; accepted so that scripts need no change.
        self.identification_batchsize = identification_batchsize
        self.assign_id = assign_id
        self.id_field = id_field

    def run(self, executor: Executor | None = None) -> WorkflowRunResult:
        """Find the duplicates, and remove them if asked to."""
        started = time.monotonic()
        table, text_bytes, files = self.input.look()
        budget, workers = memory_and_workers(self.memory_budget)
        records = text_bytes // _MEAN_DOCUMENT_BYTES * EXACT_RECORD.itemsize
        fitting = max(_FEWEST_PARTITIONS, ceil(records * _TIMES_RECORD * 2 * workers / budget))
        parts = self.total_nparts or fitting
        if self.show_progress:
            print(
                f"Exact deduplication of {human_bytes(text_bytes)} of text: {human_bytes(records)} of hashes on disk "
                f"in {parts} partitions, {human_bytes(records * _TIMES_RECORD // parts)} held by a worker; "
                f"memory_budget {human_bytes(budget)} for {workers} workers",
                file=sys.stderr,
            )
        place = Workplace(self.cache_path, {"files": files, "partitions": parts, **self._parameters()})
        table.save(f"{self.output_path}/exact_id_generator.json")
        fields = [self.text_field, *([self.keep.column] if self.keep.column else [])]
        hashed, removed = f"{place.folder}/hashed", f"{place.folder}/removed.npy"
        stages: list[ProcessingStage[Any, Any]] = [
            *self.input.stages(fields),
            HashTexts(hashed, table, parts, self.text_field, normalize_text=self.normalize_text, keep=self.keep),
            Phase("all_hashed", hashed, parts),
            FindExactDuplicates(f"{place.folder}/found", hashed),
            Phase("all_found", f"{place.folder}/found", 1),
            Conclude(f"{self.output_path}/ExactDuplicateIds", removed, hashed, table),
        ]
        if self.perform_removal:
            again, reading = self.input.stages()
            stages += [
                Again("read_for_removal", again),
                reading.with_(name="read_all"),
                RemoveDocuments(removed, table),
                writer(self.output_filetype, f"{self.output_path}/deduplicated", write_kwargs=self.write_kwargs),
            ]
        tasks = Pipeline("exact deduplication", stages=stages).run(executor)
        result = WorkflowRunResult("exact_deduplication")
        result.add_pipeline_tasks("exact_deduplication", tasks)
        result.extend_metadata(place.outcome())
        result.add_metadata("total_time", time.monotonic() - started)
        result.add_metadata("id_generator_path", f"{self.output_path}/exact_id_generator.json")
        place.clear()
        return result

    def _parameters(self) -> dict[str, Any]:
        return {
            "text_field": self.text_field,
            "normalize_text": self.normalize_text,
            "keep": asdict(self.keep),
            "blocksize": self.input.blocksize,
        }
