"""Room in the object store of each machine: work is held back before Ray would begin to write to disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from penstock.backends.ray.payload import InStore
from penstock.backends.ray.remote_worker import RayWorkerHandle
from penstock.runtime.transport import StoredTask

# Ray writes objects to disk when a store is fuller than 0.8.
STORE_SHARE = 0.6


class StoreSpace:
    """Bytes that lie on each machine, and those that workers there may add without asking."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()

    def has(self, worker: RayWorkerHandle, size: int) -> bool:
        """Tell whether a worker's machine has room for so much more."""
        name = worker.node.id
        return size == 0 or self._held[name] + self._reserved[name] + size <= STORE_SHARE * worker.node.store_bytes

    def reserve(self, worker: RayWorkerHandle, batch: int, size: int) -> None:
        """Keep room for what a batch may store."""
        worker.reserved[batch] += size
        self._reserved[worker.node.id] += size

    def release(self, worker: RayWorkerHandle, batches: Iterable[int] | None = None) -> None:
        """Take back what was kept for batches, or for all of a worker's."""
        taken = worker.reserved if batches is None else batches
        self._reserved[worker.node.id] -= sum(worker.reserved.pop(batch, 0) for batch in list(taken))

    def fill(self, stored: StoredTask) -> None:
        """Note a task that lies on a machine."""
        self._change(stored, 1)

    def empty(self, stored: StoredTask) -> None:
        """Note that a task is about to be removed."""
        self._change(stored, -1)

    def forget(self, node_id: str) -> None:
        """Leave out a machine that is gone."""
        self._held.pop(node_id, None)
        self._reserved.pop(node_id, None)

    def _change(self, stored: StoredTask, sign: int) -> None:
        place = stored.place
        if isinstance(place, InStore) and place.shelf.node is not None and not place.shelf.is_lost:
            self._held[place.shelf.node] += sign * place.size
