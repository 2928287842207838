"""A Ray cluster of several nodes on this machine, and runs on it that a test can observe."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import Pipeline, StreamingExecutor

STORE = 120_000_000


class Machines:
    """A cluster whose nodes can be added and removed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        quick = {
            "health_check_initial_delay_ms": 3000,
            "health_check_period_ms": 500,
            "health_check_failure_threshold": 8,
        }
        head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": STORE, "_system_config": quick}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address = self._cluster.address
        self.head = self._cluster.head_node.node_id

    def add(self, **has: Any) -> Any:
        return self._cluster.add_node(object_store_memory=STORE, **has)

    def remove(self, node: Any) -> None:
        self._cluster.remove_node(node, allow_graceful=False)

    def spilled_bytes(self) -> int:
        """Return the bytes that Ray has spilled to disk, on all nodes."""
        import ray
        from ray._private.internal_api import node_stats

        alive = [row for row in ray.nodes() if row["Alive"]]
        stats = [node_stats(row["NodeManagerAddress"], row["NodeManagerPort"]) for row in alive]
        return sum(int(entry.store_stats.spilled_bytes_total) for entry in stats)

    def occupy(self, cpus: int, node_id: str | None = None) -> Any:
        """Let another job use CPUs of a node; the default is the only node besides the head."""
        import ray

        class Idler:
            def is_there(self) -> bool:
                return True

        if node_id is None:
            [node] = self._cluster.worker_nodes
            node_id = node.node_id
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)
        idler = ray.remote(Idler).options(num_cpus=cpus, scheduling_strategy=here).remote()
        assert ray.get(idler.is_there.remote())
        return idler

    def vacate(self, idler: Any) -> None:
        import ray

        ray.kill(idler)

    def close(self) -> None:
        self._cluster.shutdown()


def run(stages: list[Any], folder: Path, *, show_progress: bool = False, **settings: Any) -> list[Any]:
    executor = StreamingExecutor(run_dir=str(folder / "run"), show_progress=show_progress, **settings)
    return Pipeline("p", stages=stages).run(executor)


def summary(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "run/summary.json").read_text())
    return data


class Running:
    """A run in a separate thread, because nodes can be started and stopped only from the main thread."""

    def __init__(self, stages: list[Any], folder: Path, **settings: Any) -> None:
        self._results: list[Any] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(stages, folder), kwargs=settings)
        self._thread.start()

    def _run(self, stages: list[Any], folder: Path, **settings: Any) -> None:
        try:
            self._results = run(stages, folder, **settings)
        except BaseException as error:
            self._error = error

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, while the run is active."""
        while self._thread.is_alive() and not condition():
            threading.Event().wait(0.02)

    def results(self) -> list[Any]:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results


def wait_until_there(path: Path, seconds: float = 120) -> None:
    """Wait in a worker, with a deadline."""
    deadline = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < deadline:
        threading.Event().wait(0.02)
