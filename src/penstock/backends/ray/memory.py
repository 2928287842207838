"""The memory of workers elsewhere: looked at by their machines, which end those that use more than they declared."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from penstock.backends.ray.answers import AnswerQueue
from penstock.backends.ray.nodes import RayNode
from penstock.backends.ray.remote_worker import RayWorkerHandle
from penstock.plan.plan import Plan
from penstock.runtime.machine import GB
from penstock.schedule.events import Event

_EVERY_S = 0.5
# Only to know how much is used: not worth asking often.
_IF_NOBODY_DECLARED_S = 2.5


class MemoryWatch:
    """Asks the machines how much memory the workers there use."""

    def __init__(self, plan: Plan, ears: AnswerQueue) -> None:
        self.next_look = 0.0
        # The most that all together were seen to use.
        self.peak = 0
        self._ears = ears
        self._limits = [int((pool.resources.memory_gb or 0) * GB) for pool in plan.pools]
        self._used: dict[str, int] = {}

    def look(self, now: float, workers: Iterable[RayWorkerHandle]) -> None:
        """Have the machines look at their workers, and end those that exceed what their stages declared."""
        self.next_look = now + (_EVERY_S if any(self._limits) else _IF_NOBODY_DECLARED_S)
        here: dict[str, list[RayWorkerHandle]] = {}
        for worker in workers:
            if worker.pid is not None and not worker.is_dead:
                here.setdefault(worker.node.id, []).append(worker)
        for there in here.values():
            self._ask(there[0].node, there)

    def forget(self, node_id: str) -> None:
        """Leave out a machine that is gone."""
        self._used.pop(node_id, None)

    def _ask(self, node: RayNode, workers: list[RayWorkerHandle]) -> None:
        limits = {worker.pid: self._limits[worker.pool] for worker in workers}
        answer = node.keeper.end_what_exceeds.remote(limits)
        self._ears.listen(answer, partial(self._told, node.id, workers))

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
