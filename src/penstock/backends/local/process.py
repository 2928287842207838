"""The worker process: load stored tasks, run them through the chain, store outputs as far as credit allows."""

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
# Outputs are reported in messages of at most this many.
_MAX_OUTPUTS_PER_MESSAGE = 64
# Tasks up to this size travel inside the message.
_MAX_INLINE_BYTES = 8192
_MAX_KEPT_FAILURES = 20


@dataclass(frozen=True)
class WorkerOrders:
    """The settings of a worker process, sent when it starts."""

    chain: ChainOrders
    steps: bytes
    environment: dict[str, str]
    memory_folder: Path
    spill_folder: Path
    # The file for its position, in case the process dies. The driver creates it, because shared memory may be full.
    position_file: Path
    failure_folder: Path
    # Whether a stage may pass pandas data to Arrow.
    with_pandas: bool


def worker_main(connection: Connection, orders: WorkerOrders) -> None:
    """Run as a worker until told to stop, or until the driver has ended."""
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
        os._exit(0)  # the driver has ended


class _Process:
    """One worker: its chain, its credit, and messages that arrived while it was busy."""

    def __init__(self, line: MessageChannel, orders: WorkerOrders) -> None:
        self._line = line
        self._orders = orders
        self._inbox: deque[ToWorker] = deque()
        self._credit = 0
        self._failures = 0
        self._stored = 0
        self._resident = ResidentMemory()
        self._position_file = PositionFile(orders.position_file)

    def live(self) -> WorkerOrders | None:
        """Process batches until told to stop; return the orders for another pool, if there are any."""
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
                self._position_file.work_on(message.batch)
                self._run(worker, message)
                self._position_file.work_on(None)
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
            orders.chain, orders.steps, orders.memory_folder, node, gpus, self._position_file, self._keep_failure
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
                    self._report_outputs(order.batch, outputs)
                    asked_at = time.perf_counter()
                    spill = self._request_credit(order.batch, size)
                    waited += time.perf_counter() - asked_at
                if not spill:
                    self._credit -= size
                outputs.append(self._store(task, parts, size, spill=spill))
                if len(outputs) >= _MAX_OUTPUTS_PER_MESSAGE:
                    self._report_outputs(order.batch, outputs)
        except PenstockError as error:
            self._report_outputs(order.batch, outputs)
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
        if size <= _MAX_INLINE_BYTES:
            place = joined(parts)
        else:
            self._stored += 1
            name = f"{self._orders.chain.worker}-{self._stored}"
            memory, disk = self._orders.memory_folder, self._orders.spill_folder
            place = write_spilled(parts, name, disk) if spill else write_task(parts, name, memory, disk)
        # A task on disk because shared memory was full counts against the budget like one in memory.
        return StoredTask(task.task_id, task._order, task._sources, 0 if spill else size, rows_of(task), place)

    def _report_outputs(self, batch: int, outputs: list[StoredTask]) -> None:
        if outputs:
            self._send(Gives(batch, tuple(outputs)))
            outputs.clear()

    def _request_credit(self, batch: int, size: int) -> bool:
        """Ask for credit and wait until it is granted; return True if the output must be stored on disk."""
        self._send(Wants(batch, size - self._credit))
        while True:
            # Other messages stay in the inbox for later.
            grant = next((message for message in self._inbox if isinstance(message, Grant)), None)
            if grant is not None:
                self._inbox.remove(grant)
                self._credit += grant.size
                return grant.spill
            self._inbox.extend(self._line.receive())

    def _keep_failure(self, step: ProcessingStage[Any, Any], task: Task[Any]) -> str:
        """Store a task that a stage failed on, and return the command that reproduces the failure."""
        self._failures += 1
        if self._failures > _MAX_KEPT_FAILURES:
            return ""
        path = self._orders.failure_folder / f"{self._orders.chain.worker}-{self._failures}.pickle"
        return keep_failure(path, [step], [task])

    def _send(self, message: FromWorker) -> None:
        self._line.send(message)


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent, the fork server, ends for any reason.

    The fork server ends when no process has the other end of a pipe open any more. The driver has it open, and so has
    every forked process, which inherits a copy. A busy worker that did not close its copy would keep itself alive.
    """
    lifeline = forkserver._forkserver._forkserver_alive_fd  # type: ignore[attr-defined]
    if lifeline is not None:
        os.close(lifeline)
        forkserver._forkserver._forkserver_alive_fd = None  # type: ignore[attr-defined]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
