"""Remove the decisions about documents whose source file has changed, before they are read again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.ledger.store.block_reader import copy_blocks, find_blocks, read_summary
from penstock.ledger.store.block_writer import BLOCK_SUFFIX
from penstock.ledger.store.fragment import BLOCK, METADATA, PARQUET, describe, write_table
from penstock.ledger.store.rules import FOLDER_NAME
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of


def forget_tasks(run_folder: str, sources: Collection[str], storage_options: dict[str, Any] | None = None) -> None:
    """Remove every block that descends from these source tasks; do nothing if the run has no ledger."""
    folder = f"{run_folder}/{FOLDER_NAME}"
    filesystem, name = filesystem_of(folder, storage_options)
    if not sources or not filesystem.exists(name):
        return
    removed = set(sources)
    for path in filesystem.ls(name, detail=False):
        if path.endswith(PARQUET):
            with filesystem.open(path, "rb") as stream:
                table = pq.read_table(stream)
            _forget_in_table(f"{folder}/{path.rpartition('/')[2]}", table, removed, storage_options)
    records, parameters, files = find_blocks(folder, storage_options)
    kept = [record for record in records if not _descends(read_summary(record).about["task"], removed)]
    if len(kept) == len(records):
        return
    if kept:
        with atomic_write(f"{folder}/{uuid.uuid4().hex}{BLOCK_SUFFIX}", storage_options) as stream:
            copy_blocks(kept, parameters, stream)
    for file in files:
        filesystem.rm(f"{name}/{file}")


def _forget_in_table(path: str, table: pa.Table, removed: set[str], storage_options: dict[str, Any] | None) -> None:
    described = describe(table.schema)
    kept = {block: about for block, about in described["blocks"].items() if not _descends(about["task"], removed)}
    if len(kept) == len(described["blocks"]):
        return
    if not kept:
        filesystem, name = filesystem_of(path, storage_options)
        filesystem.rm(name)
        return
    rest = table.filter(pc.is_in(table[BLOCK].cast(pa.string()), pa.array(kept, pa.string())))
    rest = rest.replace_schema_metadata({METADATA: json.dumps({**described, "blocks": kept})})
    with atomic_write(path, storage_options) as stream:
        write_table(rest, stream)


def _descends(task_id: str, sources: set[str]) -> bool:
    """Return whether a task is one of the sources or descends from one.

    >>> [_descends(task, {"0_ab"}) for task in ("0_ab", "0_ab_3_1", "0_abc")]
    [True, True, False]
    """
    parts = task_id.split("_")
    return any("_".join(parts[:length]) in sources for length in range(1, len(parts) + 1))
