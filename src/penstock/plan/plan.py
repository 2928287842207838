"""A plan: the pools of stages that share a worker, and the known input. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.cluster import Cluster
from penstock.core.files import SizedFile
from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage


@dataclass(frozen=True)
class Pool:
    """Stages that run one after the other inside each of the same workers."""

    name: str
    # The stages as the user wrote them, and the steps a worker runs: merged neighbours are one step.
    stages: tuple[ProcessingStage[Any, Any], ...]
    steps: tuple[ProcessingStage[Any, Any], ...]
    resources: Resources
    batch_size: int
    num_workers: int | None
    # Why this pool does not share workers with the one before it; empty for the first.
    border: str


@dataclass(frozen=True)
class SourcePartition:
    """How one source is cut into tasks."""

    stage: str
    files: int
    bytes: int
    tasks: int
    largest_task_bytes: int
    # The folders that the names of its files are relative to (see ``SizedFile.origin``).
    origins: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Plan:
    """The pools of a pipeline, the machines they run on, and their input."""

    pipeline: str
    pools: tuple[Pool, ...]
    cluster: Cluster
    sources: tuple[SourcePartition, ...] = ()
    # The files of each source, by the position of its stage.
    listing: Mapping[int, Sequence[SizedFile]] = field(default_factory=dict)

    @property
    def stages(self) -> list[ProcessingStage[Any, Any]]:
        """Every stage, in order."""
        return [stage for pool in self.pools for stage in pool.stages]
