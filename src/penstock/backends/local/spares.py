"""Reuse worker processes: one that has served a pool can serve the next, with its loaded modules and memory.

Deduplication has a dozen phases in sequence. Starting and ending a process takes longer than most of them do on a small
input, and touching new memory costs as much as hashing it. A process never serves the same pool twice, because a
recycled worker must be a new process.
"""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess

from penstock.backends.local.messages import MessageChannel

_MAX_IDLE_S = 2.0


@dataclass
class Spare:
    """An idle worker process."""

    process: ForkServerProcess
    line: MessageChannel
    threads: int
    served: frozenset[int]
    since: float


class Spares:
    """The idle worker processes."""

    def __init__(self) -> None:
        self._waiting: list[Spare] = []

    @property
    def pids(self) -> list[int | None]:
        """The process ids."""
        return [spare.process.pid for spare in self._waiting]

    def add(self, spare: Spare) -> None:
        """Keep an idle process."""
        self._waiting.append(spare)

    def take(self, pool: int, threads: int) -> Spare | None:
        """Return a process that can serve a pool, if there is one."""
        for number, spare in enumerate(self._waiting):
            if pool not in spare.served and spare.threads == threads and spare.process.is_alive():
                return self._waiting.pop(number)
        return None

    def let_go(self, now: float = float("inf")) -> None:
        """Kill the processes that have been idle for too long, without waiting for them to end."""
        old = [spare for spare in self._waiting if now - spare.since > _MAX_IDLE_S]
        self._waiting = [spare for spare in self._waiting if spare not in old]
        for spare in old:
            spare.process.kill()
            spare.line.close()
