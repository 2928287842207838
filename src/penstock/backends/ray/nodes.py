"""List the machines of a Ray cluster with their resources, and detect machines that join or leave."""

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
# A machine without NVIDIA's driver may declare its GPU memory: ray start --labels=penstock/gpu-memory-gb=24
_GPU_MEMORY_LABEL = "penstock/gpu-memory-gb"
_DEFAULT_GPU_GB = 80.0
# How long to wait for a machine to answer when a run starts; a slower machine joins later.
_ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class RayNode:
    """One machine: its resources for the scheduler, and how to reach it."""

    node: Node
    id: str
    agent: Any
    folder: str
    # The capacity of its object store in bytes.
    store_bytes: int

    @property
    def affinity(self) -> NodeAffinitySchedulingStrategy:
        """The scheduling strategy that places an actor on this machine."""
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
        # Machines whose agent has been asked, by id: the row of Ray's table, the agent, the pending answer.
        self._asked: dict[str, tuple[dict[str, Any], Any, Any]] = {}

    def look(self) -> Cluster:
        """Ask all machines for facts that Ray does not report, and return those that answer as a cluster."""
        for row in self._alive():
            self._ask(row)
            if not self._has_unknown_gpus(row):  # no need to wait for the agent to start
                self.admit(row["NodeID"], NodeFacts(()))
        answers = [answer for _, _, answer in self._asked.values()]
        ready = ray.wait(answers, num_returns=len(answers), timeout=_ANSWER_TIMEOUT_S)[0] if answers else []
        for node_id, (_, _, answer) in list(self._asked.items()):
            if answer in ready:
                self.admit(node_id, ray.get(answer))
        if not self.by_name:
            raise ClusterError("no machine of the Ray cluster can be used" + (
                ": there is only the head node, and ignore_head_node=True." if self._ignore_head else "."
            ))  # fmt: skip
        return Cluster(tuple(found.node for found in self.by_name.values()))

    def changes(self, when_known: Callable[[str, Any], None]) -> list[str]:
        """Return the machines that have left; ask new machines for their facts, and pass on the answers."""
        alive = {row["NodeID"]: row for row in self._alive()}
        known = {found.id for found in self.by_name.values()} | set(self._asked)
        for node_id, row in alive.items():
            if node_id not in known:
                when_known(node_id, self._ask(row))
        return [node_id for node_id in {found.id for found in self.by_name.values()} if node_id not in alive]

    def admit(self, node_id: str, facts: NodeFacts) -> RayNode | None:
        """Add a machine that has reported its facts."""
        asked = self._asked.pop(node_id, None)
        if asked is None:
            return None
        row, agent, _ = asked
        found = self._describe(row, agent, facts)
        self.by_name[found.node.name] = found
        return found

    def forget(self, node_id: str) -> list[str]:
        """Remove a machine that has left; return its names in the scheduler."""
        names = [name for name, found in self.by_name.items() if found.id == node_id]
        for name in names:
            del self.by_name[name]
        return names

    def close(self) -> None:
        """Remove the files of the run on all machines, and end the agents."""
        agents = list({found.id: found.agent for found in self.by_name.values()}.values())
        answers = [agent.clean_up.remote() for agent in agents]
        ray.wait(answers, num_returns=len(answers), timeout=5.0) if answers else None
        for agent in agents:
            ray.kill(agent)
        self.by_name.clear()

    def _alive(self) -> Iterable[dict[str, Any]]:
        for row in ray.nodes():
            if row["Alive"] and not (self._ignore_head and _HEAD in row["Resources"]):
                yield row

    def _ask(self, row: dict[str, Any]) -> Any:  # noqa: ANN401 - a reference of Ray's
        agent = (
            ray.remote(NodeAgent)
            .options(
                num_cpus=0,
                max_restarts=2,
                max_task_retries=2,
                scheduling_strategy=NodeAffinitySchedulingStrategy(row["NodeID"], soft=False),
            )
            .remote(self._folder(row), str(_session(row) / "logs"))
        )
        answer = agent.facts.remote()
        self._asked[row["NodeID"]] = (row, agent, answer)
        return answer

    def _describe(self, row: dict[str, Any], agent: Any, facts: NodeFacts) -> RayNode:  # noqa: ANN401
        has = row["Resources"]
        cpus = has.get("CPU", 0.0)
        node = Node(
            name=f"{row['NodeManagerHostname']}/{row['NodeID'][:8]}",
            cpus=float(ceil(cpus * self._cpu_share)),
            memory_gb=has.get("memory", 0.0) / GB,
            gpus=self._gpus(int(has.get("GPU", 0)), row, facts),
        )
        return RayNode(node, row["NodeID"], agent, self._folder(row), int(has.get("object_store_memory", 0)))

    def _gpus(self, count: int, row: dict[str, Any], facts: NodeFacts) -> tuple[Gpu, ...]:
        """Return the GPUs that Ray may use on a machine, with their real memory where it is known."""
        claimed = self._claimed_memory_gb(row)
        if claimed is None and len(facts.gpus) >= count:
            return facts.gpus[:count]
        return (Gpu(claimed or _DEFAULT_GPU_GB, "claimed GPU"),) * count

    def _has_unknown_gpus(self, row: dict[str, Any]) -> bool:
        return row["Resources"].get("GPU", 0) > 0 and self._claimed_memory_gb(row) is None

    def _claimed_memory_gb(self, row: dict[str, Any]) -> float | None:
        label = (row.get("Labels") or {}).get(_GPU_MEMORY_LABEL)
        return self._gpu_memory_gb or (float(label) if label else None)

    def _folder(self, row: dict[str, Any]) -> str:
        # One folder per node: several nodes of a test cluster share one machine.
        return str(_session(row) / "penstock" / self._run / row["NodeID"][:16])


def _session(row: dict[str, Any]) -> Path:
    """Return the session folder of Ray on a machine, which contains sockets/raylet."""
    return Path(row["RayletSocketName"]).parent.parent
