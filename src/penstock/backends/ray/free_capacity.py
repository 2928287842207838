"""What other jobs leave of a cluster: a run plans with that, waits if it is nothing, and grows when they end.

Ray knows how much of each machine is taken, not by whom, and knows it a moment late. What a run has itself is added
back, and only what has stayed free while none of its own workers came or went is taken for free.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ray._private.state import available_resources_per_node

from penstock.backends.ray.nodes import RayNode, RayNodes
from penstock.backends.ray.ray_resources import RayResources
from penstock.backends.ray.remote_worker import RayWorkerHandle
from penstock.core.cluster import Cluster, Node
from penstock.plan.plan import Plan

_POLL_S = 0.1
# So long what an earlier run had may take to be free again.
_PATIENCE_S = 1.5


class ClusterCapacity:
    """How much of each machine a run has been given to plan with."""

    def __init__(self, nodes: RayNodes) -> None:
        self._nodes = nodes
        # The machines that were there at the beginning; one that joins later is the run's as it comes.
        self._whole: dict[str, RayNode] = {}
        self._given: dict[str, RayResources] = {}
        # What was free when last looked, and which of our workers there were.
        self._seen: dict[str, tuple[frozenset[str], RayResources]] = {}
        self._parts = 0

    def begin(self, plan: Plan, say: Callable[[str], None]) -> Cluster:
        """Return what is free; wait, and say so, while some stage would find no room for a single worker."""
        self._whole = {found.id: found for found in self._nodes.by_name.values()}
        everything = Cluster(tuple(found.node for found in self._whole.values()))
        patience_ends = time.monotonic() + _PATIENCE_S
        said = False
        while True:
            free = self._free()
            cluster = Cluster(tuple(free[node_id].cut(found.node) for node_id, found in self._whole.items()))
            without = next((pool for pool in plan.pools if cluster.why_not(pool.resources) is not None), None)
            is_sure = cluster == everything or time.monotonic() > patience_ends
            if is_sure and without is None:
                self._given = free
                return cluster
            if is_sure and without is not None and not said:
                said = True
                say(
                    f"Waiting for other jobs on this Ray cluster, which leave {cluster}: "
                    f"a worker of '{without.name}' needs {without.resources}."
                )
            time.sleep(_POLL_S)

    def growth(self, workers: Iterable[RayWorkerHandle]) -> list[Node]:
        """Return what other jobs have given back since, as further machines: parts of those that are known."""
        known = {found.id for found in self._nodes.by_name.values()}
        short = [
            found for node_id, found in self._whole.items()
            if node_id in known and self._given[node_id] != RayResources.of(found.node)
        ]  # fmt: skip
        if not short:
            return []
        ours: dict[str, list[RayWorkerHandle]] = {found.id: [] for found in short}
        for worker in workers:
            ours.get(worker.node.id, []).append(worker)
        free = self._free()
        return [part for found in short if (part := self._grown(found, free[found.id], ours[found.id])) is not None]

    def _grown(self, found: RayNode, free: RayResources, ours: Sequence[RayWorkerHandle]) -> Node | None:
        now = (frozenset(worker.id for worker in ours), free)
        before, self._seen[found.id] = self._seen.get(found.id), now
        if before != now or not all(worker.is_up and not worker.ending for worker in ours):
            return None
        everything = RayResources.of(found.node)
        has = sum((worker.uses for worker in ours), free).within(everything)
        more = (has - self._given[found.id]).within(everything)
        if more.cpus < 1 and more.gpus < 1:
            return None
        self._given[found.id] += more
        self._parts += 1
        part = replace(more.cut(found.node), name=f"{found.node.name}+{self._parts}")
        self._nodes.by_name[part.name] = replace(found, node=part)
        return part

    def _free(self) -> dict[str, RayResources]:
        told = available_resources_per_node()
        return {
            node_id: RayResources.told(told.get(node_id, {})).within(RayResources.of(found.node))
            for node_id, found in self._whole.items()
        }
