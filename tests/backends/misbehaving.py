"""A stage that fails in different ways: exception, exit, signal, hang, memory."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

from places import Docs

from penstock import DocumentBatch


class Picky(Docs):
    """Fail in a chosen way on documents that contain a certain word, a limited number of times."""

    name = "picky"

    def __init__(self, what: str, marks: Path | None = None, times: int = 10**9) -> None:
        self.what = what
        self.marks = marks
        self.times = times

    def process(self, task: DocumentBatch) -> DocumentBatch:
        for text in task.to_pyarrow()["text"].to_pylist():
            if "poison" in text and self._still_bad():
                self._misbehave()
        return task

    def _still_bad(self) -> bool:
        if self.marks is None:
            return True
        self.marks.mkdir(exist_ok=True)
        done = len(list(self.marks.iterdir()))
        (self.marks / f"{done}-{os.getpid()}-{time.monotonic_ns()}").touch()
        return done < self.times

    def _misbehave(self) -> None:
        match self.what:
            case "raise":
                raise ValueError("this one is poison")
            case "segfault":
                ctypes.string_at(0)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                print("I leave of my own will", flush=True)
                os._exit(3)
            case "hang":
                time.sleep(1000)
            case "memory":
                hoard = bytearray(900_000_000)
                hoard[::4096] = b"x" * len(hoard[::4096])
                time.sleep(1000)
