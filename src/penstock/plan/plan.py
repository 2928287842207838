"""A plan: which stages share a worker, and what is known about the input. Data only."""

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
    # The stages as the user wrote them, and the steps a worker really takes: neighbours that merged are one step.
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
    # Where the names of its files begin (see ``SizedFile.origin``).
    origins: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Plan:
    """What will run, and on what."""

    pipeline: str
    pools: tuple[Pool, ...]
    cluster: Cluster
    sources: tuple[SourcePartition, ...] = ()
    # What was found at the sources, by the position of their stage.
    listing: Mapping[int, Sequence[SizedFile]] = field(default_factory=dict)

    @property
    def stages(self) -> list[ProcessingStage[Any, Any]]:
        """Every stage, in order."""
        return [stage for pool in self.pools for stage in pool.stages]
