"""Workflow that removes duplicates found by an earlier run, from a list of ids."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from penstock.core.executor import Executor
from penstock.core.pipeline import Pipeline
from penstock.core.task import Task
from penstock.core.workflow import WorkflowBase, WorkflowRunResult
from penstock.dedup.arrays import save_array
from penstock.dedup.document_ids import ID_FIELD, FileTable
from penstock.dedup.duplicate_pairs import KEPT_FIELD
from penstock.dedup.inputs import Input, writer
from penstock.dedup.removal import RemoveByColumn, RemoveDocuments
from penstock.dedup.stored_stage import use_folder_options
from penstock.dedup.work_folder import WorkFolder
from penstock.errors import InputError
from penstock.storage.filesystem import open_stored
from penstock.storage.folder_options import FolderOptions
from penstock.storage.formats import PARQUET
from penstock.storage.listing import list_files
from penstock.storage.same_place import is_inside, resolved


class TextDuplicatesRemovalWorkflow(WorkflowBase):
    """Remove documents by id from the data set in which the duplicates were found.

    With ``id_generator_path`` (the JSON file that a deduplication wrote) documents are identified by file and position,
    so block size, grouping and order of files may differ from the first run. Without it, ``id_field`` names the column
    with the ids; ``drop_id_field`` leaves it out of the output. ``input_task_limit`` is the maximum number of groups of
    files to read, for a trial run. ``duplicate_id_read_kwargs`` are arguments of ``pyarrow.parquet.read_table``, and
    ``storage_options``.

    >>> import pathlib, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from penstock import InlineExecutor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "in.jsonl").write_text('{"id": 1}' + chr(10) + '{"id": 2}')
    ...     pq.write_table(pa.table({"id": [2]}), f"{folder}/ids.parquet")
    ...     workflow = TextDuplicatesRemovalWorkflow(
    ...         f"{folder}/in.jsonl", f"{folder}/ids.parquet", f"{folder}/out", "jsonl", id_field="id"
    ...     )
    ...     _ = workflow.run(InlineExecutor(show_progress=False))
    ...     kept = [path.read_text() for path in pathlib.Path(folder, "out").glob("*.jsonl")]
    >>> "".join(kept).splitlines()
    ['{"id": 1}']
    """

    def __init__(
        self,
        input_path: str | Sequence[str] | None,
        ids_to_remove_path: str,
        output_path: str,
        input_filetype: str = "parquet",
        input_fields: Sequence[str] | None = None,
        id_field: str = ID_FIELD,
        input_files_per_partition: int | None = None,
        input_blocksize: int | str | None = None,
        input_file_extensions: Sequence[str] | None = None,
        input_task_limit: int | None = None,
        input_kwargs: dict[str, Any] | None = None,
        duplicate_id_field: str | None = None,
        duplicate_id_read_kwargs: dict[str, Any] | None = None,
        id_generator_path: str | None = None,
        id_generator_storage_options: dict[str, Any] | None = None,
        output_file_extension: str | None = None,
        output_filetype: str | None = None,
        output_kwargs: dict[str, Any] | None = None,
        output_fields: Sequence[str] | None = None,
        output_mode: str | None = None,
        drop_id_field: bool = False,
    ) -> None:
        if drop_id_field and id_field in (output_fields or ()):
            raise ValueError(f"drop_id_field=True, but output_fields has '{id_field}'. Leave it out of one of them.")
        self.input = Input(
            input_path, input_filetype, input_blocksize, input_file_extensions, input_kwargs, input_files_per_partition
        )
        self.input_task_limit = input_task_limit
        self.ids_to_remove_path = ids_to_remove_path
        self.output_path = output_path.rstrip("/")
        self.input_fields = input_fields
        self.id_field = id_field
        self.duplicate_id_field = duplicate_id_field
        self.duplicate_id_read_kwargs = dict(duplicate_id_read_kwargs or {})
        self.id_generator_path = id_generator_path
        self.id_generator_storage_options = id_generator_storage_options
        self.output_file_extension = output_file_extension
        self.output_filetype = output_filetype or input_filetype
        self.output_kwargs = dict(output_kwargs or {})
        self.output_fields = output_fields
        self.output_mode = output_mode or "ignore"
        self.drop_id_field = drop_id_field

    def run(
        self, executor: Executor | None = None, initial_tasks: Sequence[Task[Any]] | None = None
    ) -> WorkflowRunResult:
        """Read the input, remove the listed documents, and write the others."""
        started = time.monotonic()
        folder_options = FolderOptions([self.output_path], self.output_kwargs.get("storage_options"))
        folder_options.register()
        work_folder = WorkFolder(
            f"{self.output_path}/_penstock/removal", {"ids": self.ids_to_remove_path}, folder_options
        )
        first_tasks = initial_tasks[: self.input_task_limit] if initial_tasks is not None else None
        source = self.input.or_tasks(first_tasks, type(self).__name__)
        source.keep_apart(self.output_path)
        if is_inside(resolved(self.output_path), resolved(self.ids_to_remove_path, self._ids_options)):
            raise InputError(
                f"{self.output_path}: overlaps with the table of ids {self.ids_to_remove_path}. "
                "Give the output a folder of its own."
            )
        with work_folder:
            removed = f"{work_folder.folder}/removed.npy"
            listing, reading = source.stages(self.input_fields, is_written_again=True)
            ids = self._ids()
            save_array(removed, ids)
            remove: RemoveDocuments | RemoveByColumn
            if self.id_generator_path is not None:
                table = FileTable.load(
                    self.id_generator_path,
                    listing.source_files(),
                    self.id_generator_storage_options,
                    listing.storage_options,
                )
                remove = RemoveDocuments(removed, table)
            else:
                remove = RemoveByColumn(removed, self.id_field, drop_id_field=self.drop_id_field)
            listing.limit = self.input_task_limit if initial_tasks is None else None
            stages = [
                listing,
                reading,
                remove,
                writer(
                    self.output_filetype,
                    self.output_path,
                    write_kwargs=self.output_kwargs,
                    fields=self.output_fields,
                    mode=self.output_mode,
                    file_extension=self.output_file_extension,
                ),
            ]
            use_folder_options(stages, folder_options)
            tasks = Pipeline("removal of duplicates", stages=stages).run(executor)
            result = WorkflowRunResult("text_duplicates_removal")
            result.add_pipeline_tasks("removal", tasks)
            result.add_metadata("num_duplicates_removed", len(ids))
            result.add_metadata("total_time", time.monotonic() - started)
            work_folder.clear()
            return result

    @property
    def _ids_options(self) -> dict[str, Any] | None:
        options: dict[str, Any] | None = self.duplicate_id_read_kwargs.get("storage_options")
        return options

    def _ids(self) -> Any:  # noqa: ANN401 - numbers or texts, in an array
        """Read the ids to remove, sorted and without duplicates."""
        found = []
        options = self._ids_options
        others = {key: value for key, value in self.duplicate_id_read_kwargs.items() if key != "storage_options"}
        for file in list_files(self.ids_to_remove_path, PARQUET, options).files:
            with open_stored(file.path, options) as stream:
                table = pq.read_table(stream, **others)
            name = self.duplicate_id_field or next(n for n in table.column_names if n != KEPT_FIELD)
            if name not in table.column_names:
                raise InputError(
                    f"{file.path}: no column '{name}' with ids to remove; it has {', '.join(table.column_names)}. "
                    "Set duplicate_id_field."
                )
            values = table[name].to_numpy(zero_copy_only=False)
            found.append(values if values.dtype.kind in "iu" else values.astype(np.str_))
        return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)
