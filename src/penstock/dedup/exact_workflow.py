"""Workflow for exact deduplication: of documents with the same text, one is kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import ceil
from typing import Any, ClassVar

from penstock.core.executor import Executor
from penstock.core.sizes import human_bytes
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.workflow import WorkflowBase, WorkflowRunResult
from penstock.dedup.duplicate_table import WriteDuplicateTable
from penstock.dedup.exact import EXACT_RECORD, FindExactDuplicates, HashTexts
from penstock.dedup.index import EXACT, INDEXED_FILES, AddToIndex, Index
from penstock.dedup.input_survey import InputSurvey
from penstock.dedup.inputs import Input
from penstock.dedup.keep_policy import parse_keep
from penstock.dedup.ownership import TABLES, id_generator, take_output
from penstock.dedup.phases import EachFile, Phase
from penstock.dedup.removal import RemoveDocuments
from penstock.dedup.run_workflow import run_stages, write_kept_documents
from penstock.dedup.work_folder import INSIDE_OUTPUT, WorkFolder, memory_and_workers
from penstock.errors import InputError
from penstock.kernels.text_hash import TEXT_HASH
from penstock.storage.folder_options import FolderOptions

# Measured: number of copies of a record in memory while its partition is sorted.
_COPIES_OF_RECORD = 5
_MIN_PARTITIONS = 2


class ExactDeduplicationWorkflow(WorkflowBase):
    """Find documents with the same text; with ``perform_removal``, keep one of each and remove the others.

    Texts are compared by a 128-bit hash; with ``normalize_text`` after Unicode composition, lower-casing and collapsing
    white space. ``keep`` is as for the fuzzy workflow, "first" by default. With ``index_path`` documents are also
    compared with those kept by earlier runs with the same index, and the kept documents are added to it.

    Writes ``<output_path>/ExactDuplicateIds`` (id, kept id, similarity 1) and ``exact_id_generator.json`` (the files
    that ids refer to); with ``perform_removal`` also ``deduplicated/``.

    >>> import pathlib, tempfile
    >>> from penstock import InlineExecutor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = ['{"text": "one"}', '{"text": "two"}', '{"text": "one"}']
    ...     _ = pathlib.Path(folder, "in.jsonl").write_text(chr(10).join(lines))
    ...     workflow = ExactDeduplicationWorkflow(f"{folder}/out", f"{folder}/in.jsonl", "jsonl", perform_removal=True)
    ...     _ = workflow.run(InlineExecutor(show_progress=False))
    ...     kept = [path.read_text() for path in pathlib.Path(folder, "out/deduplicated").glob("*.jsonl")]
    >>> "".join(kept).splitlines()
    ['{"text": "one"}', '{"text": "two"}']
    """

    kind: ClassVar[str] = "exact"

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
        rmm_pool_size: int | str | None = None,
        spill_memory_limit: int | str | None = None,
        env_vars: dict[str, Any] | None = None,
        use_async_memory: bool = True,
        *,
        index_path: str | None = None,
        keep: str | Sequence[str] = "first",
        memory_budget: int | str | None = None,
        cache_path: str | None = None,
        output_filetype: str | None = None,
        show_progress: bool = True,
        overwrite: bool = False,
    ) -> None:
        self.output_path = output_path.rstrip("/")
        self.cache_path = (cache_path or f"{self.output_path}/{INSIDE_OUTPUT}").rstrip("/")
        self.input = Input(
            input_path,
            input_filetype,
            input_blocksize,
            input_file_extensions,
            read_kwargs,
            memory_budget=memory_budget,
        )
        self.write_kwargs = dict(write_kwargs or {})
        self.text_field = text_field
        self.normalize_text = normalize_text
        self.perform_removal = perform_removal
        self.total_nparts = total_nparts
        self.index_path = index_path
        self.keep = parse_keep(keep)
        self.memory_budget = memory_budget
        self.output_filetype = output_filetype or input_filetype
        self.show_progress = show_progress
        self.overwrite = overwrite
        # Accepted for compatibility and not used: documents are identified by file and position, not by an id column,
        # and there is no GPU memory or cluster to configure.
        self.ignored = (
            identification_batchsize,
            assign_id,
            id_field,
            rmm_pool_size,
            spill_memory_limit,
            env_vars,
            use_async_memory,
        )

    def run(
        self, executor: Executor | None = None, initial_tasks: Sequence[Task[Any]] | None = None
    ) -> WorkflowRunResult:
        """Find the duplicates, and remove them if requested. ``initial_tasks`` replace ``input_path``."""
        started = time.monotonic()
        folders = [self.output_path, self.cache_path, *([self.index_path] if self.index_path else [])]
        folder_options = FolderOptions(folders, self.write_kwargs.get("storage_options"))
        folder_options.register()
        source = self.input.or_tasks(initial_tasks, type(self).__name__)
        parameter = "url_field" if self.kind == "url" else "text_field"
        survey = source.look(self.output_path, self.text_field, parameter, [self.cache_path, self.index_path])
        index, generation = self._index(survey)
        table = replace(survey.table, indexed=index.file_names if index else ())
        known = [part.name for part in index.generations] if index else None
        duplicates = f"{self.output_path}/{TABLES[self.kind]}"
        work_folder = WorkFolder(
            self.cache_path,
            {"files": survey.files, "index": known, **self._parameters()},
            folder_options,
            output_path=self.output_path,
            outputs=[duplicates],
            generation=f"{index.path}/{generation}" if index else None,
        )
        with work_folder:
            take_output(self.output_path, self.kind, survey.table, survey.marks, source.given, overwrite=self.overwrite)
            parts = self._partitions(survey, work_folder)
            fields = [self.text_field, *([self.keep.column] if self.keep.column else [])]
            hashed, removed = f"{work_folder.folder}/hashed", f"{work_folder.folder}/removed.npy"
            stages: list[ProcessingStage[Any, Any]] = [
                *source.stages(fields),
                HashTexts(
                    hashed,
                    table,
                    parts,
                    self.text_field,
                    normalize_text=self.normalize_text,
                    urls=self.kind == "url",
                    keep=self.keep,
                ),
                Phase("all_hashed", hashed, parts, followers=[f"{work_folder.folder}/found"]),
                FindExactDuplicates(f"{work_folder.folder}/found", hashed, parts, index.runs(EXACT) if index else []),
                Phase("all_found", f"{work_folder.folder}/found", 1),
                WriteDuplicateTable(duplicates, removed, hashed, table),
            ]
            if index is not None:
                stages += [
                    EachFile("each_hashed_file", hashed),
                    AddToIndex(index, generation, hashed, removed, parts),
                    Phase("all_indexed", f"{work_folder.folder}/{INDEXED_FILES}", 1),
                ]
            if self.perform_removal:
                decide = RemoveDocuments(removed, table, duplicates)
                stages += write_kept_documents(
                    "removal", source, decide, self.output_filetype, self.output_path, self.write_kwargs
                )
            return run_stages(
                f"{self.kind} deduplication",
                stages,
                executor,
                work_folder,
                started,
                lambda: {**work_folder.outcome(), "id_generator_path": id_generator(self.output_path, self.kind)},
                (lambda: index.publish(generation, table, work_folder.folder)) if index is not None else None,
            )

    def _index(self, survey: InputSurvey) -> tuple[Index | None, str]:
        """Return the index as it was before this run, and the name of the generation that this run adds."""
        settings = {"kind": self.kind, "text_hash": TEXT_HASH, "normalize_text": self.normalize_text}
        return Index.for_run(self.index_path, settings, survey)

    def _partitions(self, survey: InputSurvey, work_folder: WorkFolder) -> int:
        """Return the number of partitions for hashes: the user's choice, or what fits into memory; and print it.

        Raise ``InputError`` if the user's choice does not fit.
        """
        budget, workers = memory_and_workers(self.memory_budget)
        records, per_worker = survey.documents * EXACT_RECORD.itemsize, max(1, budget // (2 * workers))
        needed = max(_MIN_PARTITIONS, workers, ceil(records * _COPIES_OF_RECORD / per_worker))
        parts = work_folder.plan({"partitions": self.total_nparts or needed})["partitions"]
        held = records * _COPIES_OF_RECORD // parts
        words = (
            f"{survey.documents:,} documents x {EXACT_RECORD.itemsize} bytes = {human_bytes(records)} of hashes on "
            f"disk in {parts} partitions, {human_bytes(held)} held by a worker (sorting: x {_COPIES_OF_RECORD}); "
            f"memory_budget {human_bytes(budget)} for {workers} workers"
        )
        if held > per_worker:
            raise InputError(
                f"total_nparts={parts} does not fit: {words}, half of it {human_bytes(per_worker)} each. "
                f"Take {needed}, or leave it out."
            )
        if self.show_progress:
            text = human_bytes(survey.text_bytes)
            print(f"{self.kind.title()} deduplication of {text} of text: about {words}", file=sys.stderr)
        return parts

    def _parameters(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "text_field": self.text_field,
            "normalize_text": self.normalize_text,
            "partitions": self.total_nparts,
            "keep": asdict(self.keep),
            "blocksize": self.input.blocksize,
        }
