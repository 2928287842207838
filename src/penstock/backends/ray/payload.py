"""Serialize tasks for the object store: a pickle and its large buffers, which readers do not copy."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from penstock.core.task import Task
from penstock.errors import ClusterError
from penstock.runtime.transport import pickle_task

# Ray keeps results below 100 kB with the caller instead of in the object store of the worker's machine. The limit here
# is lower, because of the overhead around the tasks.
HELD_BY_CALLER = 90_000
# A lost machine is detected sooner than this; a task of many gigabytes takes a while.
FETCH_S = 600.0

# One task: whether a reader may use its buffers without a copy, the pickle, the buffers.
Packed = tuple[bool, Any, list[Any]]
Payload = list[Packed]


def pack(task: Task[Any], pickled: tuple[bytes, list[memoryview]] | None = None) -> Packed:
    """Serialize a task for the object store."""
    header, buffers = pickled or pickle_task(task)
    # Arrow data is immutable. A stage may change other data in place, but stored objects are read-only.
    is_arrow = type(task.data).__module__.split(".")[0] == "pyarrow"
    return is_arrow, pickle.PickleBuffer(header), [pickle.PickleBuffer(buffer) for buffer in buffers]


def unpack(packed: Packed) -> Task[Any]:
    """Return a task from the object store, without copying Arrow data."""
    is_zero_copy, header, buffers = packed
    task: Task[Any] = pickle.loads(header, buffers=buffers if is_zero_copy else [bytearray(part) for part in buffers])
    return task


def unpack_copy(packed: Packed) -> Task[Any]:
    """Return a copy of a task, independent of the object store."""
    _, header, buffers = packed
    task: Task[Any] = pickle.loads(header, buffers=[bytearray(part) for part in buffers])
    return task


@dataclass(eq=False)
class StoreObject:
    """One object in the store, with the number of its tasks that are still needed."""

    reference: Any
    # Ray's id of the machine that stores it; None: it is stored with the driver.
    node: str | None
    tasks: int
    is_lost: bool = False


@dataclass(eq=False)
class InStore:
    """The location of one task: an object in the store, and the index of the task in it."""

    store_object: StoreObject
    index: int
    size: int
    is_removed: bool = False

    @property
    def is_available(self) -> bool:
        """Whether the task is still available, as far as is known."""
        return not self.is_removed and not self.store_object.is_lost

    def load(self) -> Task[Any]:
        """Fetch a copy of the task, independent of the store."""
        import ray

        try:
            payload: Payload = ray.get(self.store_object.reference, timeout=FETCH_S)
        except ray.exceptions.GetTimeoutError as error:
            raise ClusterError(
                f"a task on node {self.store_object.node} could not be fetched from Ray's object store within "
                f"{FETCH_S:g} s."
            ) from error
        return unpack_copy(payload[self.index])

    def remove(self) -> None:
        """Mark the task as not needed; the object is released when none of its tasks is needed."""
        if not self.is_removed:
            self.is_removed = True
            self.store_object.tasks -= 1
            if self.store_object.tasks == 0:
                self.store_object.reference = None
