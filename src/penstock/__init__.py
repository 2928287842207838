"""Penstock curates training data for large models: read, clean, filter, deduplicate, write.

What a user types first comes from here; each name is loaded when it is used, so that ``import penstock`` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.core.executor import Executor, set_default_executor

if TYPE_CHECKING:
    from penstock.backends.ray.client import RayClient
    from penstock.backends.ray.slurm import SlurmRayClient
    from penstock.backends.streaming import StreamingExecutor
    from penstock.core.composite import CompositeStage
    from penstock.core.documents import DocumentBatch
    from penstock.core.files import FileGroupTask
    from penstock.core.function_stage import processing_stage
    from penstock.core.pipeline import Pipeline
    from penstock.core.resources import Resources
    from penstock.core.stage import ProcessingStage
    from penstock.core.task import EmptyTask, Task
    from penstock.runtime.inline import InlineExecutor

__version__ = "0.1.0"

__all__ = [
    "CompositeStage",
    "DocumentBatch",
    "EmptyTask",
    "FileGroupTask",
    "InlineExecutor",
    "Pipeline",
    "ProcessingStage",
    "RayClient",
    "Resources",
    "SlurmRayClient",
    "StreamingExecutor",
    "Task",
    "processing_stage",
]

_HOMES = {
    "CompositeStage": "penstock.core.composite",
    "DocumentBatch": "penstock.core.documents",
    "EmptyTask": "penstock.core.task",
    "FileGroupTask": "penstock.core.files",
    "InlineExecutor": "penstock.runtime.inline",
    "Pipeline": "penstock.core.pipeline",
    "ProcessingStage": "penstock.core.stage",
    "RayClient": "penstock.backends.ray.client",
    "Resources": "penstock.core.resources",
    "SlurmRayClient": "penstock.backends.ray.slurm",
    "StreamingExecutor": "penstock.backends.streaming",
    "Task": "penstock.core.task",
    "processing_stage": "penstock.core.function_stage",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def _make_default_executor() -> Executor:
    from penstock.backends.streaming import StreamingExecutor

    return StreamingExecutor()


set_default_executor(_make_default_executor)
