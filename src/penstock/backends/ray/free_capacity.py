"""Find the resources that other jobs leave free: a run plans with them, waits for them, and grows when jobs end.

Ray reports how much of each machine is in use, not by which job, and with a delay. The resources of the run's own
workers are added back. Resources count as free only if they stayed free while no worker of the run started or ended.
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

_POLL_INTERVAL_S = 0.1
# The time until Ray reports the resources of an earlier run as free.
_RELEASE_DELAY_S = 1.5


class ClusterCapacity:
    """The resources of each machine that a run plans with."""

    def __init__(self, nodes: RayNodes) -> None:
        self._nodes = nodes
        # The machines at the start of the run; the whole of a machine that joins later is available to it.
        self._whole: dict[str, RayNode] = {}
        self._given: dict[str, RayResources] = {}
        # At the last check: the run's own workers on each machine, and its free resources.
        self._seen: dict[str, tuple[frozenset[str], RayResources]] = {}
        self._parts = 0

    def begin(self, plan: Plan, say: Callable[[str], None]) -> Cluster:
        """Return the free resources; wait, with a message, while a pool could not start a single worker."""
        self._whole = {found.id: found for found in self._nodes.by_name.values()}
        everything = Cluster(tuple(found.node for found in self._whole.values()))
        settled_at = time.monotonic() + _RELEASE_DELAY_S
        said = False
        while True:
            free = self._free()
            cluster = Cluster(tuple(free[node_id].cut(found.node) for node_id, found in self._whole.items()))
            without = next((pool for pool in plan.pools if cluster.why_not(pool.resources) is not None), None)
            is_sure = cluster == everything or time.monotonic() > settled_at
            if is_sure and without is None:
                self._given = free
                return cluster
            if is_sure and without is not None and not said:
                said = True
                say(
                    f"Waiting for other jobs on this Ray cluster, which leave {cluster}: "
                    f"a worker of '{without.name}' needs {without.resources}."
                )
            time.sleep(_POLL_INTERVAL_S)

    def growth(self, workers: Iterable[RayWorkerHandle]) -> list[Node]:
        """Return resources that other jobs have released, as additional nodes that are parts of known machines."""
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
