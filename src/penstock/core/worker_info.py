"""The node and worker that a stage is set up on, passed to ``setup_on_node`` and ``setup``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NodeInfo:
    """The node a stage is set up on."""

    node_id: str = ""


@dataclass(frozen=True)
class WorkerMetadata:
    """The worker a stage is set up in."""

    worker_id: str = ""
    allocation: Any = None
