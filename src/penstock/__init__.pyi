"""Penstock curates training data for large models: read, clean, filter, deduplicate, write."""

from penstock.backends.ray.client import RayClient
from penstock.backends.ray.slurm import SlurmRayClient
from penstock.core.composite import CompositeStage
from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.function_stage import processing_stage
from penstock.core.pipeline import Pipeline
from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage
from penstock.core.task import EmptyTask, Task
from penstock.core.verdicts import Verdicts
from penstock.executors.inline import InlineExecutor
from penstock.executors.streaming import StreamingExecutor

__version__: str

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
    "Verdicts",
    "processing_stage",
]
