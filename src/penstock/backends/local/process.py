"""The worker process: takes stored tasks, runs them through its chain, stores what comes out as far as credit goes."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from penstock.backends.chain import ChainOrders, set_up_chain
from penstock.backends.local.fork_server import leave_signals_to_the_driver
from penstock.backends.local.messages import (
    Begin,
    FromWorker,
    Grant,
    MessageChannel,
    Ready,
    RunOrder,
    SetupFailed,
    Stop,
    TornDown,
    ToWorker,
)
from penstock.backends.local.task_files import write_spilled, write_task
from penstock.backends.reports import Done, Failed, Gives, Wants
from penstock.backends.resident_memory import ResidentMemory
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.worker_info import NodeInfo
from penstock.errors import PenstockError
from penstock.runtime.isolation import stops_everybody
from penstock.runtime.limits import set_thread_variables
from penstock.runtime.pandas_later import expect_pandas
from penstock.runtime.position_file import PositionFile
from penstock.runtime.reproduction import keep_failure
from penstock.runtime.selection import rows_of
from penstock.runtime.transport import StoredTask, dump_task, joined, load, size_of
from penstock.runtime.worker import ChainRunner

_PR_SET_PDEATHSIG = 1
_GIVE_AT_MOST = 64
_SMALL = 8192
_KEPT_FAILURES = 20


@dataclass(frozen=True)
class WorkerOrders:
    """All a worker process is told when it starts."""

    chain: ChainOrders
    steps: bytes
    environment: dict[str, str]
    memory_folder: Path
    spill_folder: Path
    # Where to note which step is at work, in case the process dies. The driver has made it: shared memory may be full.
    crumb: Path
    failure_folder: Path
    # Whether anybody in there may hand pandas' data to Arrow.
    with_pandas: bool


def worker_main(connection: Connection, orders: WorkerOrders) -> None:
    """Live as a worker until told to stop, or until the driver is gone."""
    _die_with_parent()
    leave_signals_to_the_driver()
    line = MessageChannel(connection)
    following: WorkerOrders | None = orders
    try:
        while following is not None:
            set_thread_variables(following.chain.threads)
            os.environ.update(following.environment)
            following = _Process(line, following).live()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the driver is gone, and with it everybody who could want an answer


class _Process:
    """One worker: its chain, its credit, and messages that came while it was busy."""

    def __init__(self, line: MessageChannel, orders: WorkerOrders) -> None:
        self._line = line
        self._orders = orders
        self._inbox: deque[ToWorker] = deque()
        self._credit = 0
        self._failures = 0
        self._stored = 0
        self._resident = ResidentMemory()
        self._crumb = PositionFile(orders.crumb)

    def live(self) -> WorkerOrders | None:
        """Work until told to stop; return what to do then, if there is something."""
        try:
            worker = self._set_up()
        except Exception as error:
            self._send(
                SetupFailed(str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}")
            )
            return None
        self._send(Ready())
        while not isinstance(message := self._next(), Stop):
            if isinstance(message, RunOrder):
                self._crumb.work_on(message.batch)
                self._run(worker, message)
                self._crumb.work_on(None)
        worker.stop()
        if not message.stay:
            return None
        self._send(TornDown())
        begin = self._next()
        return begin.orders if isinstance(begin, Begin) else None

    def _next(self) -> ToWorker:
        while not self._inbox:
            self._inbox.extend(self._line.receive())
        return self._inbox.popleft()

    def _set_up(self) -> ChainRunner:
        orders = self._orders
        if orders.with_pandas:
            expect_pandas()
        gpus = orders.environment.get("CUDA_VISIBLE_DEVICES")
        node = NodeInfo("this machine")
        return set_up_chain(
            orders.chain, orders.steps, orders.memory_folder, node, gpus, self._crumb, self._keep_failure
        )

    def _run(self, worker: ChainRunner, order: RunOrder) -> None:
        start = time.perf_counter()
        self._credit = order.credit
        waited = 0.0
        outputs: list[StoredTask] = []
        try:
            for task in worker.stream([load(place) for place in order.places], order.selections, probe=order.probe):
                if order.probe or task.task_id in order.already:
                    continue
                parts = dump_task(task)
                size = size_of(parts)
                spill = order.spill
                if size > self._credit and not spill:
                    self._give(order.batch, outputs)
                    asked_at = time.perf_counter()
                    spill = self._ask(order.batch, size)
                    waited += time.perf_counter() - asked_at
                if not spill:
                    self._credit -= size
                outputs.append(self._store(task, parts, size, spill=spill))
                if len(outputs) >= _GIVE_AT_MOST:
                    self._give(order.batch, outputs)
        except PenstockError as error:
            self._give(order.batch, outputs)
            worker.take_rejections()
            self._send(Failed(order.batch, str(error), worker.take_counters(), stops_everybody(error)))
            return
        counters, rejections = worker.take_counters(), worker.take_rejections()
        if order.probe:
            counters, rejections = [], []
        seconds = time.perf_counter() - start - waited
        self._send(Done(order.batch, tuple(outputs), seconds, self._resident.bytes(), counters, rejections))

    def _store(self, task: Task[Any], parts: list[Any], size: int, *, spill: bool) -> StoredTask:
        place: str | bytes
        if size <= _SMALL:
            place = joined(parts)
        else:
            self._stored += 1
            name = f"{self._orders.chain.worker}-{self._stored}"
            memory, disk = self._orders.memory_folder, self._orders.spill_folder
            place = write_spilled(parts, name, disk) if spill else write_task(parts, name, memory, disk)
        # What is on disk for want of shared memory counts like the rest: the budget still bounds what waits.
        return StoredTask(task.task_id, task._order, task._sources, 0 if spill else size, rows_of(task), place)

    def _give(self, batch: int, outputs: list[StoredTask]) -> None:
        if outputs:
            self._send(Gives(batch, tuple(outputs)))
            outputs.clear()

    def _ask(self, batch: int, size: int) -> bool:
        """Ask for credit and wait until it is granted; return True if the output has to go to disk."""
        self._send(Wants(batch, size - self._credit))
        while True:
            # What else came is work for later, and stays in line.
            grant = next((message for message in self._inbox if isinstance(message, Grant)), None)
            if grant is not None:
                self._inbox.remove(grant)
                self._credit += grant.size
                return grant.spill
            self._inbox.extend(self._line.receive())

    def _keep_failure(self, step: ProcessingStage[Any, Any], task: Task[Any]) -> str:
        """Keep what a stage failed on, and return what to type to see it fail."""
        self._failures += 1
        if self._failures > _KEPT_FAILURES:
            return ""
        path = self._orders.failure_folder / f"{self._orders.chain.worker}-{self._failures}.pickle"
        return keep_failure(path, [step], [task])

    def _send(self, message: FromWorker) -> None:
        self._line.send(message)


def _die_with_parent() -> None:
    """Ask the kernel to end this process when the one that started it ends, however that happens.

    That one is the fork server, which ends when nobody holds its lifeline any more: the driver does, and every process
    it forked got a copy, so that it could fork in its turn. A busy worker that kept its copy would keep itself alive.
    """
    lifeline = forkserver._forkserver._forkserver_alive_fd  # type: ignore[attr-defined]
    if lifeline is not None:
        os.close(lifeline)
        forkserver._forkserver._forkserver_alive_fd = None  # type: ignore[attr-defined]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
