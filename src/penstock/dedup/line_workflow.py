"""Workflow for deduplication of lines and paragraphs: removes menus, notices and footers shared by many documents."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

import pyarrow.parquet as pq

from penstock.core.executor import Executor
from penstock.core.sizes import human_bytes
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.workflow import WorkflowBase, WorkflowRunResult
from penstock.dedup.exact import EXACT_RECORD
from penstock.dedup.inputs import Input
from penstock.dedup.keep_policy import parse_keep
from penstock.dedup.lines import CutPassages, FindCommonPassages, HashPassages
from penstock.dedup.ownership import TABLES, take_output
from penstock.dedup.passages import SEPARATORS
from penstock.dedup.phases import Phase
from penstock.dedup.run_workflow import run_stages, write_kept_documents
from penstock.dedup.work_folder import INSIDE_OUTPUT, WorkFolder, memory_and_workers
from penstock.storage.filesystem import filesystem_of, remove_folder
from penstock.storage.folder_options import FolderOptions

_COPIES_OF_RECORD = 5
_MIN_PARTITIONS = 4
# Low estimates: shorter passages would mean more records. A real mean above this only makes partitions smaller.
_MEAN_PASSAGE_BYTES = {"line": 40, "paragraph": 200}


class LineDeduplicationWorkflow(WorkflowBase):
    """Cut lines (or paragraphs) that occur in more than ``max_documents`` documents from all of them except one.

    With ``within`` a line that is repeated in a document is kept once in it. Only lines of at least ``min_characters``
    characters, without surrounding white space, are considered. A document with no text left is dropped.

    Writes ``<output_path>/deduplicated``, and ``<output_path>/CutLines`` (or ``CutParagraphs``): each passage that was
    cut, its document, the reason, and the document that keeps it.

    >>> import json, pathlib, tempfile
    >>> from penstock import InlineExecutor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     texts = [f"Page {number}." + chr(10) + "Subscribe to our newsletter." for number in range(2)]
    ...     lines = [json.dumps({"text": text}) for text in texts]
    ...     _ = pathlib.Path(folder, "in.jsonl").write_text(chr(10).join(lines))
    ...     workflow = LineDeduplicationWorkflow(f"{folder}/out", f"{folder}/in.jsonl", "jsonl", max_documents=1)
    ...     _ = workflow.run(InlineExecutor(show_progress=False))
    ...     kept = [path.read_text() for path in pathlib.Path(folder, "out/deduplicated").glob("*.jsonl")]
    >>> [json.loads(line)["text"].splitlines() for line in "".join(kept).splitlines()]
    [['Page 0.', 'Subscribe to our newsletter.'], ['Page 1.']]
    """

    def __init__(
        self,
        output_path: str,
        input_path: str | Sequence[str] | None = None,
        input_filetype: str = "parquet",
        input_blocksize: int | str | None = None,
        *,
        unit: str = "line",
        max_documents: int = 5,
        min_characters: int = 20,
        within: bool = True,
        text_field: str = "text",
        keep: str | Sequence[str] = "first",
        memory_budget: int | str | None = None,
        cache_path: str | None = None,
        output_filetype: str | None = None,
        read_kwargs: dict[str, Any] | None = None,
        write_kwargs: dict[str, Any] | None = None,
        show_progress: bool = True,
        overwrite: bool = False,
    ) -> None:
        if unit not in SEPARATORS:
            raise ValueError(f"unit={unit!r}; it is one of {', '.join(SEPARATORS)}.")
        if max_documents < 1:
            raise ValueError(f"max_documents={max_documents}; it must be at least 1.")
        self.output_path = output_path.rstrip("/")
        self.cache_path = (cache_path or f"{self.output_path}/{INSIDE_OUTPUT}").rstrip("/")
        self.input = Input(
            input_path, input_filetype, input_blocksize, read_kwargs=read_kwargs, memory_budget=memory_budget
        )
        self.unit = unit
        self.max_documents = max_documents
        self.min_characters = min_characters
        self.within = within
        self.text_field = text_field
        self.keep = parse_keep(keep)
        self.memory_budget = memory_budget
        self.output_filetype = output_filetype or input_filetype
        self.write_kwargs = dict(write_kwargs or {})
        self.show_progress = show_progress
        self.overwrite = overwrite

    def run(
        self, executor: Executor | None = None, initial_tasks: Sequence[Task[Any]] | None = None
    ) -> WorkflowRunResult:
        """Count passages, cut the common ones, and write the documents."""
        started = time.monotonic()
        folders = [self.output_path, self.cache_path]
        folder_options = FolderOptions(folders, self.write_kwargs.get("storage_options"))
        folder_options.register()
        source = self.input.or_tasks(initial_tasks, type(self).__name__)
        survey = source.look(self.output_path, self.text_field, others=[self.cache_path])
        receipts = f"{self.output_path}/{TABLES[self.unit]}"
        work_folder = WorkFolder(
            self.cache_path,
            {"files": survey.files, **self._parameters()},
            folder_options,
            output_path=self.output_path,
            outputs=[receipts],
        )
        with work_folder:
            take_output(self.output_path, self.unit, survey.table, survey.marks, source.given, overwrite=self.overwrite)
            budget, workers = memory_and_workers(self.memory_budget)
            records = survey.text_bytes // _MEAN_PASSAGE_BYTES[self.unit] * EXACT_RECORD.itemsize
            needed = max(_MIN_PARTITIONS, ceil(records * _COPIES_OF_RECORD * 2 * workers / budget))
            parts = work_folder.plan({"partitions": needed})["partitions"]
            if self.show_progress:
                text, size = human_bytes(survey.text_bytes), human_bytes(records)
                print(
                    f"Deduplication of {self.unit}s in {text} of text: about {size} of hashes on disk in {parts} "
                    f"partitions; memory_budget {human_bytes(budget)} for {workers} workers",
                    file=sys.stderr,
                )
            hashed, common = f"{work_folder.folder}/hashed", f"{work_folder.folder}/common"
            remove_folder(receipts)  # this run writes all of them again; those of other parameters must not remain
            table, fields = survey.table, [self.text_field, *([self.keep.column] if self.keep.column else [])]
            cut = CutPassages(
                common, receipts, table, parts, self.text_field, self.unit, self.min_characters, within=self.within
            )
            stages: list[ProcessingStage[Any, Any]] = [
                *source.stages(fields),
                HashPassages(hashed, table, parts, self.text_field, self.unit, self.min_characters, self.keep),
                Phase("all_hashed", hashed, parts, followers=[common]),
                FindCommonPassages(common, self.max_documents),
                Phase("all_counted", common, 1),
                *write_kept_documents("cut", source, cut, self.output_filetype, self.output_path, self.write_kwargs),
            ]
            return run_stages(
                f"{self.unit} deduplication",
                stages,
                executor,
                work_folder,
                started,
                lambda: {"receipts_path": receipts, "num_cut": _rows_in(receipts)},
            )

    def _parameters(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "max_documents": self.max_documents,
            "min_characters": self.min_characters,
            "text_field": self.text_field,
            "keep": asdict(self.keep),
            "blocksize": self.input.blocksize,
        }


def _rows_in(folder: str) -> int:
    """Return the number of rows of all Parquet files in a folder."""
    filesystem, name = filesystem_of(folder)
    rows = 0
    for path in filesystem.glob(f"{name}/*.parquet"):
        with filesystem.open(path, "rb") as stream:
            rows += pq.ParquetFile(stream).metadata.num_rows
    return rows
