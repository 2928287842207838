"""Tasks as they lie in the object store: a pickle each, and its large buffers beside, not copied by the reader."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from penstock.core.task import Task
from penstock.errors import ClusterError
from penstock.runtime.transport import pickle_task

# Ray keeps smaller results with the caller instead of in the object store of the worker's machine; a little less, for
# what surrounds them.
HELD_BY_CALLER = 90_000
# A machine that is gone is noticed sooner than that; a task of many gigabytes takes a while.
FETCH_S = 600.0

# One task: whether a reader may use its buffers as they lie, the pickle, the buffers.
Packed = tuple[bool, Any, list[Any]]
Payload = list[Packed]


def pack(task: Task[Any], pickled: tuple[bytes, list[memoryview]] | None = None) -> Packed:
    """Make a task ready to be stored."""
    header, buffers = pickled or pickle_task(task)
    # Arrow data cannot be written to. Everything else a stage may change in place, and stored objects are read-only.
    is_arrow = type(task.data).__module__.split(".")[0] == "pyarrow"
    return is_arrow, pickle.PickleBuffer(header), [pickle.PickleBuffer(buffer) for buffer in buffers]


def unpack(packed: Packed) -> Task[Any]:
    """Return a stored task."""
    as_it_lies, header, buffers = packed
    task: Task[Any] = pickle.loads(header, buffers=buffers if as_it_lies else [bytearray(part) for part in buffers])
    return task


def unpack_copy(packed: Packed) -> Task[Any]:
    """Return a stored task that outlives the object store."""
    _, header, buffers = packed
    task: Task[Any] = pickle.loads(header, buffers=[bytearray(part) for part in buffers])
    return task


@dataclass(eq=False)
class Shelf:
    """One object in the store, with the tasks in it that are still wanted."""

    reference: Any
    # The machine it lies on, by Ray's name for it; None: it is the driver's own, and as safe as the driver.
    node: str | None
    tasks: int
    is_lost: bool = False


@dataclass(eq=False)
class InStore:
    """Where one task lies: a shelf, and its number there."""

    shelf: Shelf
    index: int
    size: int
    is_removed: bool = False

    @property
    def is_there(self) -> bool:
        """Whether the task can still be had, as far as anybody knows."""
        return not self.is_removed and not self.shelf.is_lost

    def load(self) -> Task[Any]:
        """Fetch the task; it does not depend on the store any more then."""
        import ray

        try:
            payload: Payload = ray.get(self.shelf.reference, timeout=FETCH_S)
        except ray.exceptions.GetTimeoutError as error:
            raise ClusterError(
                f"a task on node {self.shelf.node} could not be fetched from Ray's object store within {FETCH_S:g} s."
            ) from error
        return unpack_copy(payload[self.index])

    def remove(self) -> None:
        """Give it up; the object goes when nobody wants anything of it."""
        if not self.is_removed:
            self.is_removed = True
            self.shelf.tasks -= 1
            if self.shelf.tasks == 0:
                self.shelf.reference = None
