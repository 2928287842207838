"""Report how the sources of a pipeline are cut into tasks: how many, and how large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.files import SizedFile
from penstock.core.stage import ProcessingStage
from penstock.plan.plan import SourcePartition


def partition(
    stages: Sequence[ProcessingStage[Any, Any]], listing: Mapping[int, Sequence[SizedFile]]
) -> tuple[SourcePartition, ...]:
    """Return for every listed source, by the position of its stage, the tasks it will emit."""
    return tuple(_partition_one(stages[position], files) for position, files in sorted(listing.items()))


def _partition_one(stage: ProcessingStage[Any, Any], files: Sequence[SizedFile]) -> SourcePartition:
    group_bytes = [sum(file.bytes_to_read for file in group) for group in stage.partition_files(files)]
    return SourcePartition(
        stage=stage.name,
        files=len(files),
        bytes=sum(file.size for file in files),
        tasks=len(group_bytes),
        largest_task_bytes=max(group_bytes, default=0),
        origins=tuple(sorted({file.origin for file in files if file.name})),
    )
