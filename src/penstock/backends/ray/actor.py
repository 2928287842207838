"""The worker actor: take orders, run tasks through the chain, and return outputs as far as credit allows."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.backends.chain import ChainOrders, set_up_chain
from penstock.backends.ray.messages import Introduction, KeptFailure, Order, Reports, SetUp, Where
from penstock.backends.ray.payload import Payload, pack, unpack
from penstock.backends.reports import Done, Failed, Gives, Report, Wants
from penstock.backends.resident_memory import ResidentMemory
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.worker_info import NodeInfo
from penstock.errors import PenstockError
from penstock.runtime.isolation import stops_everybody
from penstock.runtime.limits import set_thread_variables
from penstock.runtime.position_file import PositionFile, position_path
from penstock.runtime.reproduction import how_to_reproduce, pack_failure
from penstock.runtime.selection import rows_of
from penstock.runtime.transport import StoredTask, joined, laid_out, load, pickle_task
from penstock.runtime.worker import ChainRunner

# Tasks up to this size travel inside the answer.
_MAX_INLINE_BYTES = 8192
# An answer is returned when its tasks reach this size: a reader of one task fetches all of them.
_ANSWER_BYTES = 1 << 20
_MAX_REPORTS_PER_ANSWER = 64
_MAX_KEPT_FAILURES = 20
_MAX_KEPT_FAILURE_BYTES = 1 << 26


@dataclass(frozen=True)
class ActorOrders:
    """The settings of a worker actor, sent when it starts."""

    chain: ChainOrders
    node_id: str
    # A folder of this run on the worker's machine.
    node_folder: str
    # The folder where the driver stores failures; only used in messages.
    failure_folder: str
    # The working folder of the driver: relative paths start there, if this machine has that folder.
    working_folder: str


class WorkerActor:
    """One worker: its chain, its queued orders, and its current order."""

    def __init__(self, orders: ActorOrders) -> None:
        self._orders = orders
        set_thread_variables(orders.chain.threads)
        if not orders.chain.gpu_share:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._inbox: deque[tuple[Order, tuple[Payload, ...]]] = deque()
        self._current: Iterator[Report] | None = None
        self._batch: int | None = None
        self._waits_for_credit = False
        self._credit = 0
        self._spills_next = False
        self._payload: Payload = []
        self._payload_bytes = 0
        # The bytes of small tasks, which are in the answer itself.
        self._inline_bytes = 0
        self._failures: list[KeptFailure] = []
        self._kept = 0
        self._resident = ResidentMemory()

    def introduce(self) -> Introduction:
        """Return the process id of this worker."""
        return Introduction(os.getpid())

    def set_up(self, chain: bytes) -> SetUp:
        """Prepare the machine unless another worker has, and set the stages up."""
        try:
            self._worker = self._make_worker(chain)
        except Exception as error:
            return SetUp(str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}")
        return SetUp(None)

    def work(
        self, orders: tuple[Order, ...], grant: tuple[int, bool] | None, *payloads: Payload
    ) -> tuple[Reports, Payload | None]:
        """Take orders and credit, and process batches until there is nothing to do or the answer is full."""
        self._inbox.extend((order, payloads) for order in orders)
        if grant is not None:
            self._waits_for_credit = False
            self._credit += grant[0]
            self._spills_next = grant[1]
        self._position_file.work_on(self._batch)
        reports: list[Report] = []
        while not self._waits_for_credit and not self._is_answer_full() and len(reports) < _MAX_REPORTS_PER_ANSWER:
            report = self._next_report()
            if report is None:
                break
            reports.append(report)
            self._waits_for_credit = isinstance(report, Wants)
        self._position_file.work_on(None)  # no work happens until the next call
        payload, size, self._payload, self._payload_bytes = self._payload, self._payload_bytes, [], 0
        failures, self._failures, self._inline_bytes = self._failures, [], 0
        more = not self._waits_for_credit and (self._current is not None or bool(self._inbox))
        return Reports(tuple(reports), size, more, tuple(failures)), payload or None

    def stop(self) -> None:
        """Tear the stages down."""
        self._worker.stop()

    # ------------------------------------------------------------------------------------------------------

    def _make_worker(self, chain: bytes) -> ChainRunner:
        orders = self._orders
        with suppress(OSError):
            os.chdir(orders.working_folder)
        folder = Path(orders.node_folder)
        folder.mkdir(parents=True, exist_ok=True)
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._position_file = PositionFile(position_path(folder, orders.chain.worker))
        node = NodeInfo(orders.node_id)
        return set_up_chain(orders.chain, chain, folder, node, gpus, self._position_file, self._keep_failure)

    def _next_report(self) -> Report | None:
        """Process batches until there is a report; return None if there is nothing to do."""
        while True:
            if self._current is None:
                if not self._inbox:
                    return None
                order, payloads = self._inbox.popleft()
                self._current, self._batch = self._run(order, payloads), order.batch
                self._position_file.work_on(self._batch)
            report = next(self._current, None)
            if report is not None:
                return report
            self._current = self._batch = None

    def _run(self, order: Order, payloads: tuple[Payload, ...]) -> Iterator[Report]:
        start, waited = time.perf_counter(), 0.0
        self._credit = order.credit
        outputs: list[StoredTask] = []

        def stored_outputs() -> Iterator[Gives]:
            if outputs:
                yield Gives(order.batch, tuple(outputs))
                outputs.clear()

        try:
            tasks = [_fetch(where, payloads) for where in order.tasks]
            for task in self._worker.stream(tasks, order.selections, probe=order.probe):
                if order.probe or task.task_id in order.already:
                    continue
                header, buffers = pickle_task(task)
                size = len(header) + sum(buffer.nbytes for buffer in buffers)
                free = order.free
                if size > self._credit and not free:
                    yield from stored_outputs()
                    asked_at = time.perf_counter()
                    yield Wants(order.batch, size - self._credit)
                    waited += time.perf_counter() - asked_at
                    free = self._spills_next
                if not free:
                    self._credit -= size
                outputs.append(self._store(task, header, buffers, size, charged=not free))
                if self._is_answer_full():
                    asked_at = time.perf_counter()
                    yield from stored_outputs()
                    waited += time.perf_counter() - asked_at
        except PenstockError as error:
            yield from stored_outputs()
            self._worker.take_rejections()
            yield Failed(order.batch, str(error), self._worker.take_counters(), stops_everybody(error))
            return
        counters, rejections = self._worker.take_counters(), self._worker.take_rejections()
        if order.probe:
            counters, rejections = [], []
        seconds = time.perf_counter() - start - waited
        yield Done(order.batch, tuple(outputs), seconds, self._resident.bytes(), counters, rejections)

    def _store(
        self, task: Task[Any], header: bytes, buffers: list[memoryview], size: int, *, charged: bool
    ) -> StoredTask:
        place: Any
        if size <= _MAX_INLINE_BYTES:
            place = joined(laid_out(header, buffers))
            self._inline_bytes += size
        else:
            place = len(self._payload)
            self._payload.append(pack(task, (header, buffers)))
            self._payload_bytes += size
        return StoredTask(task.task_id, task._order, task._sources, size if charged else 0, rows_of(task), place)

    def _is_answer_full(self) -> bool:
        return self._payload_bytes + self._inline_bytes >= _ANSWER_BYTES

    def _keep_failure(self, step: ProcessingStage[Any, Any], task: Task[Any]) -> str:
        """Send a task that a stage failed on to the driver, and return the command that reproduces the failure."""
        self._kept += 1
        if self._kept > _MAX_KEPT_FAILURES:
            return ""
        body = pack_failure([step], [task])
        if body is None or len(body) > _MAX_KEPT_FAILURE_BYTES:
            return ""
        name = f"{self._orders.chain.worker}-{self._kept}.pickle"
        self._failures.append(KeptFailure(name, body))
        return how_to_reproduce(f"{self._orders.failure_folder}/{name}")


def _fetch(where: Where, payloads: tuple[Payload, ...]) -> Task[Any]:
    if isinstance(where, bytes):
        return load(where)
    argument, index = where
    return unpack(payloads[argument][index])
