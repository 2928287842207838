"""Serialize a task to move it between processes, without copying its large buffers on the way in.

A stored task is one file: the number and sizes of the buffers, the pickle, then the buffers. The reader maps the file
and passes views of the mapping to the unpickler, so Arrow and NumPy data are not copied. The file can be unlinked
while a process still has it mapped.
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

# The module name, inside a pickle, of classes defined in the user's script or notebook.
_MAIN = b"__main__"
_ALIGNMENT = 64
_COUNT = struct.Struct("<Q")


class StorageLocation(Protocol):
    """The location of a task in an object store."""

    def load(self) -> Task[Any]:
        """Return the task."""
        ...

    def remove(self) -> None:
        """Remove the task from the object store."""
        ...


class StoredTask(NamedTuple):
    """The location of a serialized task, with the facts that the driver needs without loading it."""

    id: str
    order: tuple[int, ...]
    sources: tuple[str, ...]
    size: int
    rows: int
    # A file path, or the bytes themselves for a task that is too small to be worth a file.
    place: str | bytes | StorageLocation

    def load(self) -> Task[Any]:
        """Return the task; the buffers of a file are mapped, not copied."""
        return load(self.place) if isinstance(self.place, str | bytes) else self.place.load()

    def remove(self) -> None:
        """Remove the stored task; processes that have mapped it can continue to use it."""
        if isinstance(self.place, str):
            Path(self.place).unlink(missing_ok=True)
        elif not isinstance(self.place, bytes):
            self.place.remove()


def pickle_task(task: Task[Any]) -> tuple[bytes, list[memoryview]]:
    """Return the pickle of a task and its out-of-band buffers.

    Classes are pickled by name, which is fast. Where that fails, or names the user's script, which workers do not
    import, the definition of the class is sent with the task. Raise ``StageError`` if the task cannot be pickled.
    """
    buffers: list[pickle.PickleBuffer] = []
    compact = task.compacted()
    try:
        header = pickle.dumps(compact, protocol=5, buffer_callback=buffers.append)
        if _MAIN not in header:
            return header, [buffer.raw() for buffer in buffers]
    except Exception:
        pass  # a class may raise any exception here, and still be pickled by value
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
    """Serialize a task to a list of buffers, in the order in which they are written."""
    return laid_out(*pickle_task(task))


def laid_out(header: bytes, raw: list[memoryview]) -> list[Any]:
    """Return the parts of a stored task in the order in which they are written: sizes, pickle, aligned buffers."""
    sizes = struct.pack(f"<{len(raw) + 2}Q", len(raw), len(header), *(buffer.nbytes for buffer in raw))
    parts: list[Any] = [sizes, header]
    position = len(sizes) + len(header)
    for buffer in raw:
        padding = -position % _ALIGNMENT
        parts += [bytes(padding), buffer] if padding else [buffer]
        position += padding + buffer.nbytes
    return parts


def size_of(parts: list[Any]) -> int:
    """Return the size of a serialized task in bytes."""
    return sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in parts)


def joined(parts: list[Any]) -> bytes:
    """Return a serialized task as one bytes object."""
    return b"".join(parts)


def store(parts: list[Any], path: Path) -> None:
    """Write a serialized task to a file."""
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
    """Load a stored task; the buffers of a file are mapped, not copied."""
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
