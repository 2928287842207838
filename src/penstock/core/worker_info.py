"""What a stage is told about where it runs, when it is set up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NodeInfo:
    """The machine a stage is being prepared on."""

    node_id: str = ""


@dataclass(frozen=True)
class WorkerMetadata:
    """The worker a stage is being set up in."""

    worker_id: str = ""
    allocation: Any = None
