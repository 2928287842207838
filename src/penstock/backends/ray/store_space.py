"""Track the space in the object store of each machine, to delay work before Ray would spill to disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from penstock.backends.ray.payload import InStore
from penstock.backends.ray.remote_worker import RayWorkerHandle
from penstock.runtime.transport import StoredTask

# Ray spills objects to disk when more than 0.8 of a store is in use.
STORE_SHARE = 0.6


class StoreSpace:
    """The bytes stored on each machine, and those reserved for its workers."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()

    def has(self, worker: RayWorkerHandle, size: int) -> bool:
        """Tell whether the machine of a worker has space for ``size`` more bytes."""
        name = worker.node.id
        return size == 0 or self._held[name] + self._reserved[name] + size <= STORE_SHARE * worker.node.store_bytes

    def reserve(self, worker: RayWorkerHandle, batch: int, size: int) -> None:
        """Reserve space for the outputs of a batch."""
        worker.reserved[batch] += size
        self._reserved[worker.node.id] += size

    def release(self, worker: RayWorkerHandle, batches: Iterable[int] | None = None) -> None:
        """Release the space reserved for some batches, or for all batches of a worker."""
        taken = worker.reserved if batches is None else batches
        self._reserved[worker.node.id] -= sum(worker.reserved.pop(batch, 0) for batch in list(taken))

    def fill(self, stored: StoredTask) -> None:
        """Add the size of a stored task."""
        self._change(stored, 1)

    def empty(self, stored: StoredTask) -> None:
        """Subtract the size of a task that is about to be removed."""
        self._change(stored, -1)

    def forget(self, node_id: str) -> None:
        """Remove a machine that has left the cluster."""
        self._held.pop(node_id, None)
        self._reserved.pop(node_id, None)

    def _change(self, stored: StoredTask, sign: int) -> None:
        place = stored.place
        if isinstance(place, InStore) and place.store_object.node is not None and not place.store_object.is_lost:
            self._held[place.store_object.node] += sign * place.size
