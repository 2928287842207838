"""Processes between two pools: one that has served a pool serves the next, with all it has loaded and its memory.

Deduplication has a dozen phases that follow each other. To start and end a process takes longer than most of them do on
a small input, and memory that is new to a process costs as much to touch as to hash. Who leaves one pool never comes
back to it, because a worker that is to be recycled must be another process.
"""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess

from penstock.backends.local.messages import MessageChannel

_KEPT_S = 2.0


@dataclass
class Spare:
    """A process that waits for orders."""

    process: ForkServerProcess
    line: MessageChannel
    threads: int
    served: frozenset[int]
    since: float


class Spares:
    """Processes that wait for orders."""

    def __init__(self) -> None:
        self._waiting: list[Spare] = []

    @property
    def pids(self) -> list[int | None]:
        """The processes, by their numbers."""
        return [spare.process.pid for spare in self._waiting]

    def add(self, spare: Spare) -> None:
        """Keep a process for a while."""
        self._waiting.append(spare)

    def take(self, pool: int, threads: int) -> Spare | None:
        """Return one that can serve a pool, if there is one."""
        for number, spare in enumerate(self._waiting):
            if pool not in spare.served and spare.threads == threads and spare.process.is_alive():
                return self._waiting.pop(number)
        return None

    def let_go(self, now: float = float("inf")) -> None:
        """End those that have waited too long; they hold nothing, so nobody need wait until they are gone."""
        old = [spare for spare in self._waiting if now - spare.since > _KEPT_S]
        self._waiting = [spare for spare in self._waiting if spare not in old]
        for spare in old:
            spare.process.kill()
            spare.line.close()
