"""Add an id to each document: the task's name and a number, the same in every run."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage, Spec
from penstock.errors import StageError


class AddId(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add a unique id, ``PREFIX_TASK_NUMBER``, to each document.

    Tasks are named after their input, so the same input gets the same ids, in whatever order workers finish. The column
    must not exist, unless ``overwrite`` is set.

    >>> from penstock.testing import make_batch, run_stage
    >>> [batch] = run_stage(AddId("uid", id_prefix="web"), make_batch(["a", "b"]))
    >>> batch.to_pyarrow()["uid"].to_pylist()
    ['web_0_0_0', 'web_0_0_1']
    """

    name = "add_id"

    def __init__(self, id_field: str, id_prefix: str | None = None, overwrite: bool = False) -> None:
        self.id_field = id_field
        self.id_prefix = id_prefix
        self.overwrite = overwrite

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Add the column."""
        if self.id_field in task.get_columns() and not self.overwrite:
            raise StageError(
                f"stage '{self.name}': column '{self.id_field}' exists already. "
                "Choose another id_field, or set overwrite=True to replace it."
            )
        stem = "_".join(part for part in (self.id_prefix, task.task_id) if part)
        numbers = pa.array(range(task.num_items), pa.int64()).cast(pa.large_string())
        ids = pc.binary_join_element_wise(pa.scalar(stem, numbers.type), numbers, pa.scalar("_", numbers.type))
        return task.with_columns({self.id_field: ids})

    def inputs(self) -> Spec:
        """Require no column."""
        return ["data"], []

    def outputs(self) -> Spec:
        """Return the column of ids."""
        return ["data"], [self.id_field]
