"""The driver's side of the local backend: start worker processes, exchange messages, detect deaths."""

from __future__ import annotations

import os
import selectors
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, cast

import psutil

from penstock.backends.chain import ChainOrders
from penstock.backends.chain_pickle import pickled_chain, preludes
from penstock.backends.local.folders import RunFolders
from penstock.backends.local.fork_server import fork_server, start
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
from penstock.backends.local.process import WorkerOrders, worker_main
from penstock.backends.local.spares import Spare, Spares
from penstock.backends.local.stage_declarations import is_reusable, modules_to_preload
from penstock.backends.local.stored_tasks import StoredTasks
from penstock.backends.local.task_files import write_spilled
from penstock.backends.local.worker_process import LocalWorkerHandle, resident_bytes
from penstock.backends.reception import Reception
from penstock.backends.reports import Done, Gives
from penstock.core.cluster import Cluster
from penstock.core.task import Task
from penstock.ledger.record.run_ledger import KeptLedger
from penstock.plan.plan import Plan
from penstock.runtime.machine import GB
from penstock.runtime.position_file import batch_of, make_position_file, position_path, take_position
from penstock.runtime.run_record import RunRecord
from penstock.runtime.selection import rows_of
from penstock.runtime.transport import StoredTask, dump_task
from penstock.schedule.actions import (
    Action,
    AskWorker,
    DeadLetter,
    DropItems,
    GrantCredit,
    KillWorker,
    RunBatch,
    StartWorker,
    StopWorker,
)
from penstock.schedule.events import Event, StopAsked, WorkerAnswered, WorkerGone, WorkerLost, WorkerReady
from penstock.storage.atomic import explain_write

_MEMORY_CHECK_INTERVAL_S = 0.5
# A killed process ends at once, unless it is waiting for a device that does not respond.
_JOIN_TIMEOUT_S = 10.0
# A worker that was told to stop has usually torn down within about a millisecond.
_TEARDOWN_WAIT_S = 0.005


class LocalBackend:
    """Carry out actions with processes on this machine."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        record: RunRecord,
        *,
        max_attempts: int,
        failure_folder: Path,
        spill_dir: str | None = None,
        ledger: KeptLedger | None = None,
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._record = record
        self._max_attempts = max_attempts
        self._failure_folder = failure_folder
        self._ledger = ledger
        self._is_reusable = [is_reusable(pool) for pool in plan.pools]
        self._context = fork_server(modules_to_preload(plan.pools))
        self._chains = [pickled_chain(plan.pipeline, pool.steps) for pool in plan.pools]
        self.folders = RunFolders.make(spill_dir)
        self._workers: dict[str, LocalWorkerHandle] = {}
        self._spares = Spares()
        self._stored = StoredTasks()
        self._reception = Reception(plan, record, self._stored)
        self._selector = selectors.DefaultSelector()
        self._next_look = 0.0
        # Events that were received while waiting for something else.
        self._noted: list[Event] = []
        self._stop_asked = False
        self._limits = [pool.resources.memory_gb for pool in plan.pools]
        self.peak_resident = 0

    # -- the backend protocol ------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time."""
        return time.monotonic()

    def carry_out(self, action: Action) -> None:
        """Perform an action, or start it."""
        match action:
            case StartWorker():
                self._start(action)
            case StopWorker(worker_id):
                if (worker := self._workers.get(worker_id)) is not None:  # one in setup reads it afterwards
                    worker.ending = True
                    self._send(worker, Stop(stay=self._is_reusable[worker.pool]))
            case KillWorker(worker_id, reason, wants_position):
                if (worker := self._workers.get(worker_id)) is not None:
                    # Without a position to report, its batches have other workers: its results are ignored.
                    worker.ending = worker.is_dismissed = not wants_position
                    worker.kill_reason = reason
                    worker.process.kill()
            case AskWorker(worker_id):
                if (worker := self._workers.get(worker_id)) is not None:
                    self._noted.append(WorkerAnswered(worker_id, self._batch_of(worker)))
            case RunBatch():
                self._run(action)
            case GrantCredit():
                if (worker := self._workers.get(action.worker)) is not None:
                    self._send(worker, Grant(action.size, action.spill))
            case DropItems(keys):
                for key in keys:
                    self._stored.drop(key)
            case DeadLetter():
                self._reception.dead_letter(action)

    def wait(self, until: float) -> Sequence[Event]:
        """Wait for events and return them; return none if ``until`` comes first."""
        if self._stop_asked:
            self._stop_asked = False
            return [StopAsked()]
        events, self._noted = self._noted, []
        timeout = 0.0 if events else max(0.0, min(until, self._next_look) - self.now())
        for key, mask in self._selector.select(timeout):
            events += key.data(mask)
        if self.now() >= self._next_look:
            events += self._look_at_workers()
        return events

    # -- what the executor uses ----------------------------------------------------------------------------

    def put(self, key: str, task: Task[Any]) -> StoredTask:
        """Store an initial task."""
        path = write_spilled(dump_task(task), f"root-{len(self._stored)}", self.folders.spill)
        stored = StoredTask(task.task_id, task._order, task._sources, 0, rows_of(task), path)
        self._stored.add(key, stored)
        return stored

    def ask_to_stop(self) -> None:
        """Request a stop; may be called from a signal handler."""
        self._stop_asked = True

    def wake_on(self, descriptor: int) -> None:
        """End a wait when something arrives at this descriptor, such as a signal."""

        def nothing(_mask: int) -> list[Event]:
            os.read(descriptor, 64)
            return []

        self._selector.register(descriptor, selectors.EVENT_READ, nothing)

    def close(self) -> None:
        """Kill all processes, and remove all files of the run."""
        for worker in self._workers.values():
            worker.process.kill()
        deadline = self.now() + _JOIN_TIMEOUT_S
        for worker in list(self._workers.values()):
            worker.process.join(timeout=max(0.0, deadline - self.now()))
            worker.line.close()
        self._workers.clear()
        self._spares.let_go()
        self._selector.close()
        self.folders.remove()

    @property
    def pids(self) -> list[int]:
        """The processes of all workers."""
        return [worker.process.pid for worker in self._workers.values() if worker.process.pid is not None]

    # -- workers -------------------------------------------------------------------------------------------

    def _start(self, action: StartWorker) -> None:
        resources = self._plan.pools[action.pool].resources
        gpus = self._cluster.nodes[0].gpus
        share = resources.gpu_share(gpus[action.placement.gpus[0]].memory_gb) if action.placement.gpus else 0.0
        chain = ChainOrders(
            worker=action.worker,
            pool=action.pool,
            max_attempts=self._max_attempts,
            threads=max(1, ceil(resources.cpus)),
            gpu_share=share,
            ledger=self._ledger.orders(action.pool) if self._ledger is not None else None,
            sys_path=tuple(sys.path),
            preludes=preludes(),
        )
        position_file = self._make_position_file(action.worker)
        orders = WorkerOrders(
            chain,
            steps=self._chains[action.pool],
            environment={"CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in action.placement.gpus)},
            memory_folder=self.folders.memory,
            spill_folder=self.folders.spill,
            position_file=position_file,
            failure_folder=self._failure_folder,
            with_pandas=not self._is_reusable[action.pool],
        )
        spare = self._spare_for(action.pool, chain.threads) if self._is_reusable[action.pool] else None
        if spare is not None:
            process, line, served = spare.process, spare.line, spare.served
        else:
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=worker_main, args=(theirs, orders), name=f"penstock-{action.worker}")
            start(process)
            theirs.close()
            line, served = MessageChannel(ours), frozenset()
            line.never_wait()
        served |= {action.pool}
        worker = LocalWorkerHandle(
            action.worker, action.pool, process, line, chain.threads, position_file, served=served
        )
        self._workers[worker.id] = worker
        self._selector.register(worker.line, selectors.EVENT_READ, lambda mask: self._reached(worker, mask))
        self._selector.register(process.sentinel, selectors.EVENT_READ, lambda _mask: self._ended(worker))
        if spare is not None:
            self._send(worker, Begin(orders))

    def _batch_of(self, worker: LocalWorkerHandle) -> int | None:
        try:
            process = psutil.Process(worker.process.pid)
        except psutil.Error:
            return None
        return batch_of(worker.position_file, process)

    def _make_position_file(self, worker: str) -> Path:
        """Create the position file of a worker; on disk if shared memory is full."""
        path = position_path(self.folders.memory, worker)
        try:
            make_position_file(path)
        except OSError:
            path.unlink(missing_ok=True)
            path = position_path(self.folders.spill, worker)
            with explain_write(str(path)):
                make_position_file(path)
        return path

    def _spare_for(self, pool: int, threads: int) -> Spare | None:
        """Return an idle process, or wait briefly for one that is stopping: a new fork takes longer."""
        deadline = self.now() + _TEARDOWN_WAIT_S
        while (spare := self._spares.take(pool, threads)) is None:
            workers = (worker for worker in self._workers.values() if worker.ending and not worker.hung_up)
            leaving = {worker.line.fileno(): worker for worker in workers if self._is_reusable[worker.pool]}
            ready = wait_for(list(leaving), max(0.0, deadline - self.now())) if leaving else []
            if not ready:
                return None
            for descriptor in ready:
                self._noted += self._read(leaving[cast(int, descriptor)])
        return spare

    def _send(self, worker: LocalWorkerHandle, message: ToWorker) -> None:
        """Send a message without blocking: a busy worker may not read all of it yet."""
        with suppress(BrokenPipeError, ConnectionResetError):  # it has died; its sentinel reports that
            is_sent = worker.line.post(message)
            if not is_sent and not worker.hung_up:
                self._listen(worker, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _reached(self, worker: LocalWorkerHandle, mask: int) -> list[Event]:
        """Send more of a message, or read the messages of a worker, whichever is possible."""
        if mask & selectors.EVENT_WRITE and worker.id in self._workers:
            is_sent = True
            with suppress(BrokenPipeError, ConnectionResetError):
                is_sent = worker.line.post_rest()
            if is_sent:
                self._listen(worker, selectors.EVENT_READ)
        return self._read(worker) if mask & selectors.EVENT_READ else []

    def _listen(self, worker: LocalWorkerHandle, mask: int) -> None:
        key = self._selector.get_key(worker.line)
        if key.events != mask:
            self._selector.modify(worker.line, mask, key.data)

    def _read(self, worker: LocalWorkerHandle) -> list[Event]:
        """Read the messages of a worker."""
        if worker.id not in self._workers:
            return []
        try:
            messages = worker.line.receive()
        except (EOFError, ConnectionResetError):
            # No more messages will arrive; the sentinel reports the end of the process.
            self._selector.unregister(worker.line)
            worker.hung_up = True
            return []
        return [event for message in messages for event in self._translate(worker, message)]

    def _translate(self, worker: LocalWorkerHandle, message: FromWorker) -> list[Event]:
        match message:
            case Ready():
                return [WorkerReady(worker.id)]
            case SetupFailed(reason):
                worker.kill_reason = reason
                return []
            case TornDown():
                return self._freed(worker)
            case report if worker.is_dismissed:
                for stored in report.outputs if isinstance(report, Gives | Done) else ():
                    stored.remove()
                return []
            case report:
                return self._reception.take(worker, report)

    def _freed(self, worker: LocalWorkerHandle) -> list[Event]:
        """Keep the process of a worker that has torn down, for reuse."""
        del self._workers[worker.id]
        self._selector.unregister(worker.line)
        self._selector.unregister(worker.process.sentinel)
        take_position(worker.position_file)
        self._spares.add(Spare(worker.process, worker.line, worker.threads, worker.served, self.now()))
        return [WorkerGone(worker.id)]

    def _ended(self, worker: LocalWorkerHandle) -> list[Event]:
        """Report how a process ended, after reading its last messages."""
        if worker.id not in self._workers:
            return []
        events: list[Event] = []
        while not worker.hung_up and worker.line.has_more():  # one of its child processes may have the other end open
            events += self._read(worker)
        if worker.id not in self._workers:
            return events  # it had torn down before it died
        if not worker.hung_up:
            self._selector.unregister(worker.line)
        worker.process.join(timeout=_JOIN_TIMEOUT_S)
        del self._workers[worker.id]
        self._selector.unregister(worker.process.sentinel)
        worker.line.close()
        step, rows = take_position(worker.position_file)
        if worker.ending:
            return [*events, WorkerGone(worker.id)]
        reason, from_outside = worker.how_it_ended()
        return [*events, WorkerLost(worker.id, reason, step, rows, from_outside)]

    def _look_at_workers(self) -> list[Event]:
        """Kill workers that use more memory than their stages declared."""
        self._next_look = self.now() + _MEMORY_CHECK_INTERVAL_S
        self._spares.let_go(self.now())
        resident = sum(resident_bytes(pid) for pid in self._spares.pids)
        for worker in self._workers.values():
            used = resident_bytes(worker.process.pid)
            resident += used
            limit = self._limits[worker.pool]
            if limit is not None and used > limit * GB and not worker.kill_reason:
                worker.kill_reason = f"used {used / GB:.2f} GB of memory, more than its memory_gb={limit:g}"
                worker.process.kill()
        self.peak_resident = max(self.peak_resident, resident)
        return []

    # -- tasks ---------------------------------------------------------------------------------------------

    def _run(self, action: RunBatch) -> None:
        worker = self._workers.get(action.worker)
        if worker is None:
            return
        worker.orders[action.batch] = action
        places = tuple(cast("str | bytes", self._stored.stored(key).place) for key in action.items)
        last = worker.pool + 1 == len(self._plan.pools)
        spill = last or action.spill
        self._send(
            worker,
            RunOrder(action.batch, places, action.credit, action.already, action.selections, action.probe, spill),
        )
