"""The machines of a Ray cluster: what each has, and which have come or gone since last asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from penstock.backends.ray.node_agent import NodeAgent, NodeFacts
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.errors import ClusterError
from penstock.runtime.machine import GB

_HEAD = "node:__internal_head__"
# A machine without NVIDIA's driver may still say how large its GPUs are: ray start --labels=penstock/gpu-memory-gb=24
_GPU_MEMORY_LABEL = "penstock/gpu-memory-gb"
_CLAIMED_GPU_GB = 80.0
# How long a machine may take to answer when a run begins; it joins later if it takes longer.
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class RayNode:
    """One machine: as the scheduler sees it, and what it takes to reach it."""

    node: Node
    id: str
    keeper: Any
    folder: str
    # How many bytes its object store holds.
    store_bytes: int

    @property
    def affinity(self) -> NodeAffinitySchedulingStrategy:
        """What keeps an actor on this machine."""
        return NodeAffinitySchedulingStrategy(self.id, soft=False)


class RayNodes:
    """The machines of the cluster that a run may use."""

    def __init__(
        self,
        run: str,
        *,
        cpu_share: float = 1.0,
        ignore_head: bool = False,
        gpu_memory_gb: float | None = None,
    ) -> None:
        self.by_name: dict[str, RayNode] = {}
        self._run = run
        self._cpu_share = cpu_share
        self._ignore_head = ignore_head
        self._gpu_memory_gb = gpu_memory_gb
        # Machines whose keeper has been asked, by id: the row of Ray's table, the keeper, the answer to come.
        self._asked: dict[str, tuple[dict[str, Any], Any, Any]] = {}

    def look(self) -> Cluster:
        """Ask all machines there are what Ray does not say, and return those that answer as a cluster."""
        for row in self._alive():
            self._ask(row)
            if not self._has_unknown_gpus(row):  # a process takes a second to start, and has nothing to add
                self.admit(row["NodeID"], NodeFacts(()))
        answers = [answer for _, _, answer in self._asked.values()]
        ready = ray.wait(answers, num_returns=len(answers), timeout=_PATIENCE_S)[0] if answers else []
        for node_id, (_, _, answer) in list(self._asked.items()):
            if answer in ready:
                self.admit(node_id, ray.get(answer))
        if not self.by_name:
            raise ClusterError("no machine of the Ray cluster can be used" + (
                ": there is only the head node, and ignore_head_node=True." if self._ignore_head else "."
            ))  # fmt: skip
        return Cluster(tuple(found.node for found in self.by_name.values()))

    def changes(self, when_known: Callable[[str, Any], None]) -> list[str]:
        """Return the machines that are gone; ask those that have come, and have the answers passed on."""
        alive = {row["NodeID"]: row for row in self._alive()}
        known = {found.id for found in self.by_name.values()} | set(self._asked)
        for node_id, row in alive.items():
            if node_id not in known:
                when_known(node_id, self._ask(row))
        return [node_id for node_id in {found.id for found in self.by_name.values()} if node_id not in alive]

    def admit(self, node_id: str, facts: NodeFacts) -> RayNode | None:
        """Take in a machine that has said what it has."""
        asked = self._asked.pop(node_id, None)
        if asked is None:
            return None
        row, keeper, _ = asked
        found = self._describe(row, keeper, facts)
        self.by_name[found.node.name] = found
        return found

    def forget(self, node_id: str) -> list[str]:
        """Leave out a machine that is gone; return what the scheduler called it."""
        names = [name for name, found in self.by_name.items() if found.id == node_id]
        for name in names:
            del self.by_name[name]
        return names

    def close(self) -> None:
        """Have everything removed that the run has left on the machines."""
        keepers = list({found.id: found.keeper for found in self.by_name.values()}.values())
        answers = [keeper.clean_up.remote() for keeper in keepers]
        ray.wait(answers, num_returns=len(answers), timeout=5.0) if answers else None
        for keeper in keepers:
            ray.kill(keeper)
        self.by_name.clear()

    def _alive(self) -> Iterable[dict[str, Any]]:
        for row in ray.nodes():
            if row["Alive"] and not (self._ignore_head and _HEAD in row["Resources"]):
                yield row

    def _ask(self, row: dict[str, Any]) -> Any:  # noqa: ANN401 - a reference of Ray's
        keeper = (
            ray.remote(NodeAgent)
            .options(
                num_cpus=0,
                max_restarts=2,
                max_task_retries=2,
                scheduling_strategy=NodeAffinitySchedulingStrategy(row["NodeID"], soft=False),
            )
            .remote(self._folder(row), str(_session(row) / "logs"))
        )
        answer = keeper.facts.remote()
        self._asked[row["NodeID"]] = (row, keeper, answer)
        return answer

    def _describe(self, row: dict[str, Any], keeper: Any, facts: NodeFacts) -> RayNode:  # noqa: ANN401
        has = row["Resources"]
        cpus = has.get("CPU", 0.0)
        node = Node(
            name=f"{row['NodeManagerHostname']}/{row['NodeID'][:8]}",
            cpus=float(ceil(cpus * self._cpu_share)),
            memory_gb=has.get("memory", 0.0) / GB,
            gpus=self._gpus(int(has.get("GPU", 0)), row, facts),
        )
        return RayNode(node, row["NodeID"], keeper, self._folder(row), int(has.get("object_store_memory", 0)))

    def _gpus(self, count: int, row: dict[str, Any], facts: NodeFacts) -> tuple[Gpu, ...]:
        """Return the GPUs Ray may use on a machine, each with its real memory where that can be found out."""
        claimed = self._claimed_memory_gb(row)
        if claimed is None and len(facts.gpus) >= count:
            return facts.gpus[:count]
        return (Gpu(claimed or _CLAIMED_GPU_GB, "claimed GPU"),) * count

    def _has_unknown_gpus(self, row: dict[str, Any]) -> bool:
        return row["Resources"].get("GPU", 0) > 0 and self._claimed_memory_gb(row) is None

    def _claimed_memory_gb(self, row: dict[str, Any]) -> float | None:
        label = (row.get("Labels") or {}).get(_GPU_MEMORY_LABEL)
        return self._gpu_memory_gb or (float(label) if label else None)

    def _folder(self, row: dict[str, Any]) -> str:
        # Several nodes of a test cluster are one machine: the folder is the node's own all the same.
        return str(_session(row) / "penstock" / self._run / row["NodeID"][:16])


def _session(row: dict[str, Any]) -> Path:
    """Return the folder Ray keeps on a machine while it runs there: <session>/sockets/raylet is one of its files."""
    return Path(row["RayletSocketName"]).parent.parent
