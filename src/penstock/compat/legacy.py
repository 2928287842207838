"""Stand-ins for names that only ``nemo_curator`` scripts use."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from penstock.core.composite import CompositeStage
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.errors import suggestion
from penstock.runtime.machine import find_gpus, usable_cpus

_BACKENDS = ("cudf", "pandas")


class ToBackend(ProcessingStage[Task[Any], Task[Any]]):
    """Return every task unchanged.

    In Penstock every stage receives Arrow data, and a stage that uses a GPU copies its data there and back. So this
    stage can stay in a script or be deleted.

    >>> ToBackend("cudf").process(Task("demo", data=1)).data
    1
    """

    name = "to_backend"

    def __init__(self, backend: str) -> None:
        if backend not in _BACKENDS:
            known = " or ".join(repr(name) for name in _BACKENDS)
            raise ValueError(f"ToBackend({backend!r}): expected {known}.{suggestion(str(backend), _BACKENDS)}")
        self.backend = backend

    def process(self, task: Task[Any]) -> Task[Any]:
        """Return the task itself."""
        return task


class Sequential(CompositeStage[Task[Any], Task[Any]]):
    """Combine stages into one composite stage that runs them in sequence.

    >>> from penstock import Pipeline
    >>> Pipeline("demo", stages=[Sequential([ToBackend("cudf"), ToBackend("pandas")])]).build()
    [ToBackend(name='to_backend', 1 CPU), ToBackend(name='to_backend', 1 CPU)]
    """

    name = "sequential"

    def __init__(self, stages: Sequence[ProcessingStage[Any, Any]]) -> None:
        if not stages:
            raise ValueError("Sequential([]): give at least one stage.")
        for stage in stages:
            if not isinstance(stage, ProcessingStage):
                raise TypeError(
                    f"Sequential takes stages, got {stage!r}. "
                    "Put @processing_stage(name=…) on a function; make an instance of a class."
                )
        self.stages = list(stages)

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        """Return the stages."""
        return self.stages


class Client:
    """Handle returned by ``get_client``; it describes the machine and starts nothing."""

    def __init__(self, cluster_type: str, workers: int) -> None:
        self.cluster_type = cluster_type
        self.workers = workers

    def close(self) -> None:
        """Do nothing: nothing was started."""

    def __enter__(self) -> Client:
        """Return itself."""
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Do nothing."""


def get_client(cluster_type: str = "cpu", **_settings: Any) -> Client:  # noqa: ANN401 - settings of a cluster that is not started
    """Return a handle for scripts that start a cluster first; Penstock detects cores and GPUs in every run."""
    if cluster_type not in ("cpu", "gpu"):
        raise ValueError(f"get_client(cluster_type={cluster_type!r}): expected 'cpu' or 'gpu'.")
    workers = len(find_gpus()) if cluster_type == "gpu" else usable_cpus()
    if workers == 0:
        warnings.warn("no GPU was found on this machine; stages that need one will be refused", stacklevel=2)
    return Client(cluster_type, workers)
