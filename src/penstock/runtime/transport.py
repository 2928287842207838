"""Moving a task between processes: pickled, with its large buffers lying beside in shared memory.

A stored task is one file: the number and sizes of the buffers, the pickle, then the buffers. The reader maps the file
and hands the buffers to the unpickler as they lie, so Arrow and NumPy data are not copied. The file can be unlinked
while somebody still has it mapped.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from penstock.core.task import Task
from penstock.errors import StageError
from penstock.runtime import by_value

# In a pickle, the module of what the user's script or notebook defines.
_MAIN = b"__main__"
_ALIGNMENT = 64
_COUNT = struct.Struct("<Q")


class StorageLocation(Protocol):
    """Where a task lies, if that is neither a file nor here: some object store."""

    def load(self) -> Task[Any]:
        """Return the task."""
        ...

    def remove(self) -> None:
        """Free its storage."""
        ...


class StoredTask(NamedTuple):
    """A task that lies somewhere, and what has to be known of it without looking there."""

    id: str
    order: tuple[int, ...]
    sources: tuple[str, ...]
    size: int
    rows: int
    # The file it lies in; a small task is the bytes themselves, because a file would cost more than it holds.
    place: str | bytes | StorageLocation

    def load(self) -> Task[Any]:
        """Return the task; of a file, its buffers stay where they are."""
        return load(self.place) if isinstance(self.place, str | bytes) else self.place.load()

    def remove(self) -> None:
        """Free its storage; whoever has it mapped keeps it."""
        if isinstance(self.place, str):
            Path(self.place).unlink(missing_ok=True)
        elif not isinstance(self.place, bytes):
            self.place.remove()


def pickle_task(task: Task[Any]) -> tuple[bytes, list[memoryview]]:
    """Return a task as a pickle, and the buffers that belong to it.

    Classes are pickled by name, which is fast. Where that fails, or names the user's script, which workers do not
    import, the definition of the class travels with the task. Raise ``StageError`` if the task cannot be pickled.
    """
    buffers: list[pickle.PickleBuffer] = []
    compact = task.compacted()
    try:
        header = pickle.dumps(compact, protocol=5, buffer_callback=buffers.append)
        if _MAIN not in header:
            return header, [buffer.raw() for buffer in buffers]
    except Exception:
        pass  # any class may raise anything here, and be pickled by value all the same
    buffers.clear()
    try:
        header = by_value.dumps(compact, buffer_callback=buffers.append)
    except Exception as error:
        raise StageError(
            f"task '{task.task_id}' ({type(task).__qualname__}) cannot be sent to another process: "
            f"{type(error).__name__}: {error}. Open files, locks and connections belong into setup() of a stage; "
            "or run with InlineExecutor()."
        ) from error
    return header, [buffer.raw() for buffer in buffers]


def dump_task(task: Task[Any]) -> list[Any]:
    """Return a task as a list of buffers to be written one after the other."""
    return laid_out(*pickle_task(task))


def laid_out(header: bytes, raw: list[memoryview]) -> list[Any]:
    """Return a pickle and its buffers in the order in which they are written, with what a reader has to know first."""
    sizes = struct.pack(f"<{len(raw) + 2}Q", len(raw), len(header), *(buffer.nbytes for buffer in raw))
    parts: list[Any] = [sizes, header]
    position = len(sizes) + len(header)
    for buffer in raw:
        padding = -position % _ALIGNMENT
        parts += [bytes(padding), buffer] if padding else [buffer]
        position += padding + buffer.nbytes
    return parts


def size_of(parts: list[Any]) -> int:
    """Return how many bytes a dumped task takes."""
    return sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in parts)


def joined(parts: list[Any]) -> bytes:
    """Return a dumped task in one piece."""
    return b"".join(parts)


def store(parts: list[Any], path: Path) -> None:
    """Write a dumped task."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        pending = [memoryview(part).cast("B") for part in parts if len(part)]
        while pending:
            written = os.writev(descriptor, pending[:512])
            while pending and written >= pending[0].nbytes:
                written -= pending.pop(0).nbytes
            if written:
                pending[0] = pending[0][written:]
    finally:
        os.close(descriptor)


def load(place: str | bytes) -> Task[Any]:
    """Return a stored task; of a file, its buffers stay where they are."""
    if isinstance(place, bytes):
        view = memoryview(bytearray(place))
    else:
        with open(place, "rb", buffering=0) as stream:  # noqa: PTH123 - a hot path, and Path.open costs twice as much
            view = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY))  # private: a stage may write
    (count,) = _COUNT.unpack_from(view, 0)
    header_size, *sizes = struct.unpack_from(f"<{count + 1}Q", view, _COUNT.size)
    position = _COUNT.size * (count + 2)
    header = view[position : position + header_size]
    position += header_size
    buffers = []
    for size in sizes:
        position += -position % _ALIGNMENT
        buffers.append(view[position : position + size])
        position += size
    task: Task[Any] = pickle.loads(header, buffers=buffers)
    return task
