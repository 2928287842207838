"""Run on this machine: its resources, its memory budget, its backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import psutil

from penstock.backends.local.backend import LocalBackend
from penstock.backends.local.folders import shared_memory_free
from penstock.core.cluster import Cluster
from penstock.ledger.record.run_ledger import KeptLedger
from penstock.plan.plan import Plan, Pool
from penstock.runtime.machine import this_machine
from penstock.runtime.run_record import RunRecord

_SHARE_OF_FREE_MEMORY = 0.4
# The budget is at least this, even if shared memory is smaller, as in most containers: the rest is stored on disk.
_MIN_BUDGET_BYTES = 2**30


class LocalVenue:
    """Worker processes on this machine."""

    round_trip_s = 0.0005
    has_others = False

    def __init__(self, cpus: float | None, gpus: int | None, gpu_memory_gb: float | None, cpu_share: float) -> None:
        self.cluster = this_machine(cpus, gpus, gpu_memory_gb)
        if cpus is None:
            node = self.cluster.nodes[0]
            # Whole cores: 95 % of two cores is two, of 128 it is 122.
            self.cluster = Cluster((replace(node, cpus=max(1, ceil(node.cpus * cpu_share))),))

    def free(self, plan: Plan, say: Callable[[str], None]) -> Cluster:
        """Return the whole machine, regardless of other programs that run on it."""
        return self.cluster

    def installs_for(self, pool: Pool) -> bool:
        """Install nothing: workers have the environment of this process."""
        return False

    def budget(self, asked: int | None) -> int:
        """Return the requested budget, else a share of the free memory; above 1 GiB, at most free shared memory."""
        if asked:
            return asked
        free = int(psutil.virtual_memory().available)
        return max(2**26, int(min(_SHARE_OF_FREE_MEMORY * free, max(_MIN_BUDGET_BYTES, 0.8 * shared_memory_free()))))

    def backend(
        self, plan: Plan, record: RunRecord, *, max_attempts: int, spill_dir: str | None, ledger: KeptLedger | None
    ) -> LocalBackend:
        """Return a backend that runs the plan."""
        return LocalBackend(
            plan,
            self.cluster,
            record,
            max_attempts=max_attempts,
            failure_folder=record.failure_folder,
            spill_dir=spill_dir,
            ledger=ledger,
        )

    def close(self) -> None:
        """Do nothing: the backend releases everything that a run uses."""
