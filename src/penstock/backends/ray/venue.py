"""Run on a Ray cluster: find it, connect to it, and disconnect at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from penstock.backends.backend import RunBackend
from penstock.backends.ray.connect import JOIN_TIMEOUT_S, JOIN_WITH_ENVIRONMENT_S, connect
from penstock.backends.ray.ports import answers
from penstock.core.cluster import Cluster
from penstock.errors import ClusterError
from penstock.extras import require
from penstock.ledger.record.run_ledger import KeptLedger
from penstock.plan.plan import Plan, Pool
from penstock.runtime.run_record import RunRecord
from penstock.storage.owned_folders import owned_name

_ADDRESS = "RAY_ADDRESS"
_IGNORE_HEAD = "CURATOR_IGNORE_RAY_HEAD_NODE"


def is_at_hand() -> bool:
    """Tell whether a run uses Ray by default: ``RAY_ADDRESS`` is set, or this process is connected already."""
    if os.environ.get(_ADDRESS):
        return True
    ray: Any = sys.modules.get("ray")  # a process that is connected has imported it
    return ray is not None and hasattr(ray, "is_initialized") and bool(ray.is_initialized())


class RayVenue:
    """Actors on the machines of a Ray cluster; without a cluster, of a local Ray that ends with the run."""

    round_trip_s = 0.05
    has_others = True

    def __init__(
        self,
        *,
        cpu_share: float,
        ignore_head: bool = False,
        runtime_env: dict[str, Any] | None = None,
        cpus: float | None = None,
        gpus: int | None = None,
        gpu_memory_gb: float | None = None,
    ) -> None:
        ray = require("ray", "ray", "Running on a Ray cluster")
        from penstock.backends.ray.free_capacity import ClusterCapacity
        from penstock.backends.ray.nodes import RayNodes

        self._ray = ray
        self._runtime_env = runtime_env
        self._joined = not ray.is_initialized()
        if self._joined:
            self._join(runtime_env, cpus, gpus)
        try:
            ignore_head = ignore_head or os.environ.get(_IGNORE_HEAD, "").lower() in ("1", "true", "yes")
            self.nodes = RayNodes(
                owned_name(), cpu_share=cpu_share, ignore_head=ignore_head, gpu_memory_gb=gpu_memory_gb
            )
            self.cluster = self.nodes.look()
            self._capacity = ClusterCapacity(self.nodes)
        except BaseException:
            self.close()
            raise

    def _join(self, runtime_env: dict[str, Any] | None, cpus: float | None, gpus: int | None) -> None:
        address = os.environ.get(_ADDRESS)
        if not address:  # ``cpus`` and ``gpus`` apply only to a local Ray, not to an existing cluster
            self._ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=gpus,
                include_dashboard=False,
                runtime_env=runtime_env,
                log_to_driver=False,
                logging_level="ERROR",
            )
            return
        if address[-1].isdigit() and "://" not in address and not answers(address):
            raise ClusterError(self._no_answer(address, "connection refused."))  # Ray would try for minutes
        try:
            connect(address, JOIN_WITH_ENVIRONMENT_S if runtime_env else JOIN_TIMEOUT_S, runtime_env=runtime_env)
        except (ConnectionError, ClusterError) as error:
            raise ClusterError(self._no_answer(address, str(error))) from error

    def _no_answer(self, address: str, why: str) -> str:
        return (
            f"no Ray cluster answers at {_ADDRESS}={address!r}: {why} "
            f"Start one (ray start --head), unset {_ADDRESS}, or run with StreamingExecutor(backend='local')."
        )

    def free(self, plan: Plan, say: Callable[[str], None]) -> Cluster:
        """Return the free resources; wait, with a message, while a pool could not start a single worker."""
        return self._capacity.begin(plan, say)

    def installs_for(self, pool: Pool) -> bool:
        """Tell whether Ray must install an environment for a pool; environment variables alone need none."""
        own = pool.stages[0].runtime_env or {}
        return bool(({*own} | {*(self._runtime_env or {})}) - {"env_vars"})

    def budget(self, asked: int | None) -> int:
        """Return the requested budget, at most what the object stores hold before Ray spills to disk."""
        from penstock.backends.ray.store_space import STORE_SHARE

        space = int(STORE_SHARE * sum(node.store_bytes for node in self.nodes.by_name.values()))
        return min(asked or space, space)

    def backend(
        self, plan: Plan, record: RunRecord, *, max_attempts: int, spill_dir: str | None, ledger: KeptLedger | None
    ) -> RunBackend:
        """Return a backend that runs the plan; ``spill_dir`` is ignored, because Ray has its own setting."""
        from penstock.backends.ray.backend import RayBackend

        return RayBackend(
            plan,
            self.nodes,
            self._capacity,
            record,
            max_attempts=max_attempts,
            failure_folder=record.failure_folder.absolute(),
            ledger=ledger,
        )

    def close(self) -> None:
        """Disconnect from the cluster, if this object has connected."""
        if self._joined and self._ray.is_initialized():
            self._ray.shutdown()
