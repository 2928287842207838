"""Check the memory of workers through the agents of their machines, which kill those above their limit."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from penstock.backends.ray.answers import AnswerQueue
from penstock.backends.ray.nodes import RayNode
from penstock.backends.ray.remote_worker import RayWorkerHandle
from penstock.plan.plan import Plan
from penstock.runtime.machine import GB
from penstock.schedule.events import Event

_INTERVAL_S = 0.5
# Without any declared limit the check only measures, so it is rare.
_INTERVAL_WITHOUT_LIMITS_S = 2.5


class MemoryWatch:
    """Ask the machines for the memory that their workers use."""

    def __init__(self, plan: Plan, answers: AnswerQueue) -> None:
        self.next_look = 0.0
        # The peak memory of all workers together, in bytes.
        self.peak = 0
        self._answers = answers
        self._limits = [int((pool.resources.memory_gb or 0) * GB) for pool in plan.pools]
        self._used: dict[str, int] = {}

    def look(self, now: float, workers: Iterable[RayWorkerHandle]) -> None:
        """Let the machines check their workers, and kill those above the declared memory of their stages."""
        self.next_look = now + (_INTERVAL_S if any(self._limits) else _INTERVAL_WITHOUT_LIMITS_S)
        by_node: dict[str, list[RayWorkerHandle]] = {}
        for worker in workers:
            if worker.pid is not None and not worker.is_dead:
                by_node.setdefault(worker.node.id, []).append(worker)
        for members in by_node.values():
            self._ask(members[0].node, members)

    def forget(self, node_id: str) -> None:
        """Remove a machine that has left the cluster."""
        self._used.pop(node_id, None)

    def _ask(self, node: RayNode, workers: list[RayWorkerHandle]) -> None:
        limits = {worker.pid: self._limits[worker.pool] for worker in workers}
        answer = node.agent.kill_above_limit.remote(limits)
        self._answers.listen(answer, partial(self._told, node.id, workers))

    def _told(
        self, node_id: str, workers: list[RayWorkerHandle], answer: dict[int, int] | None, _error: BaseException | None
    ) -> list[Event]:
        if answer is None:
            return []
        self._used[node_id] = answer.pop(0)
        self.peak = max(self.peak, sum(self._used.values()))
        for worker in workers:
            if worker.pid in answer:
                used, limit = answer[worker.pid] / GB, self._limits[worker.pool] / GB
                worker.kill_reason = f"used {used:.2f} GB of memory, more than its memory_gb={limit:g}"
        return []
