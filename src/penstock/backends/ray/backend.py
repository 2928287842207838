"""The driver's side of the Ray backend: start worker actors, exchange messages, detect lost workers and machines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError

from penstock.backends.chain_pickle import pickled_chain
from penstock.backends.ray.answers import AnswerQueue
from penstock.backends.ray.calls import Calls
from penstock.backends.ray.exit_reason import exit_reason
from penstock.backends.ray.free_capacity import ClusterCapacity
from penstock.backends.ray.memory import MemoryWatch
from penstock.backends.ray.messages import Introduction, SetUp
from penstock.backends.ray.node_agent import ExitRecord, NodeFacts
from penstock.backends.ray.nodes import RayNodes
from penstock.backends.ray.payload import InStore, StoreObject, pack
from penstock.backends.ray.records import Records
from penstock.backends.ray.remote_worker import RayWorkerHandle, Recruiter
from penstock.backends.ray.store_space import StoreSpace
from penstock.backends.reception import Reception
from penstock.core.task import Task
from penstock.ledger.record.run_ledger import KeptLedger
from penstock.plan.plan import Plan
from penstock.runtime.run_record import RunRecord
from penstock.runtime.selection import rows_of
from penstock.runtime.transport import StoredTask, dump_task, joined, size_of
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
from penstock.schedule.events import (
    Event,
    ItemsLost,
    NodeAdded,
    NodeLost,
    StopAsked,
    WorkerAnswered,
    WorkerGone,
    WorkerLost,
    WorkerPlaced,
    WorkerReady,
)

# Tasks up to this size travel inside messages.
_MAX_INLINE_BYTES = 8192
_NODE_CHECK_INTERVAL_S = 1.0
# How long a machine may take to report on a worker that died there.
_EXIT_RECORD_TIMEOUT_S = 30.0
# A worker that has not started by then may never start: another job may use its resources.
_START_TIMEOUT_S = 60.0


class RayBackend:
    """Carry out actions with actors of a Ray cluster."""

    def __init__(
        self,
        plan: Plan,
        nodes: RayNodes,
        capacity: ClusterCapacity,
        record: RunRecord,
        *,
        max_attempts: int,
        failure_folder: Path,
        ledger: KeptLedger | None = None,
    ) -> None:
        self._nodes = nodes
        self._capacity = capacity
        self._chains = [ray.put(pickled_chain(plan.pipeline, pool.steps)) for pool in plan.pools]
        self._recruiter = Recruiter(plan, max_attempts=max_attempts, failure_folder=failure_folder, ledger=ledger)
        self._workers: dict[str, RayWorkerHandle] = {}
        self._answers = AnswerQueue()
        space = StoreSpace()
        self._records = Records(space)
        self._reception = Reception(plan, record, self._records)
        self._calls = Calls(
            self._answers,
            self._records,
            space,
            self._reception,
            failure_folder,
            is_last=lambda pool: pool + 1 == len(plan.pools),
            is_expected=self._expects_workers,
            on_failure=self._call_failed,
        )
        self._memory = MemoryWatch(plan, self._answers)
        self._next_look_at_nodes = 0.0

    @property
    def peak_resident(self) -> int:
        """The peak memory of all workers together, in bytes."""
        return self._memory.peak

    # -- the backend protocol ------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time."""
        return time.monotonic()

    def carry_out(self, action: Action) -> None:
        """Perform an action, or start it; ignore actions for workers that have ended."""
        match action:
            case StartWorker():
                self._start(action)
            case DropItems(keys):
                self._records.drop(keys)
            case DeadLetter():
                self._reception.dead_letter(action)
            case _ if (worker := self._workers.get(action.worker)) is not None:
                self._tell(worker, action)

    def _tell(
        self, worker: RayWorkerHandle, action: StopWorker | KillWorker | AskWorker | RunBatch | GrantCredit
    ) -> None:
        match action:
            case RunBatch():
                self._calls.order(worker, action)
            case GrantCredit(_, batch, size, spill):
                self._calls.grant(worker, batch, size, spill=spill)
            case AskWorker(_, batch):
                self._ask(worker, batch)
            case StopWorker() if worker.pid is not None:  # one in setup is torn down afterwards
                worker.ending = True
                self._answers.listen(worker.actor.stop.remote(), partial(self._stopped, worker))
            case KillWorker(_, reason, wants_position) if wants_position:
                worker.kill_reason = reason
                self._died(worker, None)  # asks its machine for its position
                with suppress(RayError):
                    ray.kill(worker.actor)
            case StopWorker() | KillWorker():  # an actor that was not started has nothing to tear down
                self._discard(worker)
                self._answers.tell(WorkerGone(worker.id))

    def wait(self, until: float) -> Sequence[Event]:
        """Wait for events and return them; return none if ``until`` comes first."""
        events = self._calls.send()
        next_look = min(until, self._next_look_at_nodes, self._memory.next_look)
        events += self._answers.take(0.0 if events else next_look - self.now())
        if self.now() >= self._next_look_at_nodes:
            events += self._look_at_nodes()
        if self.now() >= self._memory.next_look:
            self._memory.look(self.now(), self._workers.values())
        return events

    # -- what the executor uses ----------------------------------------------------------------------------

    def put(self, key: str, task: Task[Any]) -> StoredTask:
        """Store an initial task."""
        parts = dump_task(task)
        is_small = size_of(parts) <= _MAX_INLINE_BYTES
        place = joined(parts) if is_small else InStore(StoreObject(ray.put([pack(task)]), None, 1), 0, 0)
        stored = StoredTask(task.task_id, task._order, task._sources, 0, rows_of(task), place)
        self._records.add(key, stored)
        return stored

    def ask_to_stop(self) -> None:
        """Request a stop; may be called from a signal handler."""
        self._answers.tell(StopAsked())

    def wake_on(self, descriptor: int) -> None:
        """Do nothing: a request to stop ends the wait by itself."""

    def close(self) -> None:
        """End all actors, and remove the files of the run on all machines."""
        for worker in list(self._workers.values()):
            self._discard(worker)
        self._records.clear()
        self._nodes.close()

    # -- workers -------------------------------------------------------------------------------------------

    def _start(self, action: StartWorker) -> None:
        node = self._nodes.by_name.get(action.placement.node)
        if node is None:  # it has left the cluster, which is reported separately
            return
        worker = self._recruiter.start(action, node)
        self._workers[worker.id] = worker
        self._answers.listen(worker.actor.introduce.remote(), partial(self._introduced, worker))
        set_up = worker.actor.set_up.remote(self._chains[action.pool])
        self._answers.listen(set_up, partial(self._is_set_up, worker))

    def _expects_workers(self) -> bool:
        """Tell whether a worker will be ready soon."""
        since = self.now() - _START_TIMEOUT_S
        return any(not worker.is_up and worker.began > since for worker in self._workers.values())

    def _introduced(
        self, worker: RayWorkerHandle, answer: Introduction | None, _error: BaseException | None
    ) -> list[Event]:
        if answer is None:
            return []  # its setup fails with the same error, and reports it
        worker.pid = answer.pid
        return [WorkerPlaced(worker.id)]

    def _ask(self, worker: RayWorkerHandle, batch: int) -> None:
        """Ask the machine of a worker for its batch: the worker itself would answer only after the batch."""
        if any(order.batch == batch for order in worker.outbox):  # not sent yet: no space for its outputs
            self._answers.tell(WorkerAnswered(worker.id, batch))
        elif worker.calls and worker.pid is not None:
            answer = worker.node.agent.batch_of.remote(worker.id, worker.pid)
            self._answers.listen(answer, partial(self._answered, worker))

    def _answered(self, worker: RayWorkerHandle, batch: int | None, error: BaseException | None) -> list[Event]:
        return [WorkerAnswered(worker.id, batch)] if error is None else []

    def _is_set_up(self, worker: RayWorkerHandle, answer: SetUp | None, error: BaseException | None) -> list[Event]:
        if worker.id not in self._workers:
            return []
        if answer is None:
            return self._died(worker, error)
        if answer.trouble is not None:
            self._discard(worker)
            return [WorkerGone(worker.id)] if worker.ending else [WorkerLost(worker.id, answer.trouble)]
        worker.is_up = True
        return [WorkerReady(worker.id)]

    def _stopped(self, worker: RayWorkerHandle, _answer: None, _error: BaseException | None) -> list[Event]:
        if worker.id not in self._workers:
            return []
        self._discard(worker)
        return [WorkerGone(worker.id)]

    def _discard(self, worker: RayWorkerHandle) -> None:
        """Kill an actor, and forget it."""
        self._workers.pop(worker.id, None)
        self._calls.forget(worker)
        with suppress(RayError):
            ray.kill(worker.actor)

    def _call_failed(self, worker: RayWorkerHandle, error: BaseException | None) -> list[Event]:
        """Report that a worker is lost; if it died, after asking its machine for details."""
        cause = error.cause if isinstance(error, RayTaskError) else error
        if isinstance(cause, RayActorError | OutOfMemoryError):
            return self._died(worker, error)
        self._discard(worker)
        return [WorkerLost(worker.id, f"{type(cause).__name__}: {cause}")]

    def _died(self, worker: RayWorkerHandle, error: BaseException | None) -> list[Event]:
        if not worker.is_dead:
            self._calls.forget(worker)
            answer = worker.node.agent.exit_record.remote(worker.id, worker.pid)
            self._answers.listen(answer, partial(self._exit_recorded, worker, error), within_s=_EXIT_RECORD_TIMEOUT_S)
        return []

    def _exit_recorded(
        self,
        worker: RayWorkerHandle,
        death: BaseException | None,
        words: ExitRecord | None,
        trouble: BaseException | None,
    ) -> list[Event]:
        if worker.id not in self._workers:
            return []
        if isinstance(trouble, TimeoutError):
            words = ExitRecord(None, 0, None, "")
        if words is None:  # the machine does not answer any more: it is lost, with everything on it
            return self._lose_node(worker.node.id)
        del self._workers[worker.id]
        if worker.ending:
            return [WorkerGone(worker.id)]
        reason, from_outside = exit_reason(worker, death, words)
        return [WorkerLost(worker.id, reason, words.step, words.rows, from_outside)]

    # -- machines ------------------------------------------------------------------------------------------

    def _look_at_nodes(self) -> list[Event]:
        """Check which machines have joined or left, and which resources other jobs have released."""
        self._next_look_at_nodes = self.now() + max(_NODE_CHECK_INTERVAL_S, len(self._nodes.by_name) / 100)
        events: list[Event] = []
        for node_id in self._nodes.changes(
            lambda node_id, answer: self._answers.listen(answer, partial(self._joined, node_id))
        ):
            events += self._lose_node(node_id)
        return events + [NodeAdded(part) for part in self._capacity.growth(self._workers.values())]

    def _joined(self, node_id: str, answer: NodeFacts | None, _error: BaseException | None) -> list[Event]:
        found = self._nodes.admit(node_id, answer) if answer is not None else None
        return [NodeAdded(found.node)] if found is not None else []

    def _lose_node(self, node_id: str) -> list[Event]:
        """Handle a lost machine: discard its workers, and report the stored tasks that no worker has received."""
        names = self._nodes.forget(node_id)
        if not names:
            return []
        for worker in [worker for worker in self._workers.values() if worker.node.id == node_id]:
            self._discard(worker)
        self._memory.forget(node_id)
        taken = {key for worker in self._workers.values() for order in worker.orders.values() for key in order.items}
        lost = [key for key in self._records.lose(node_id) if key not in taken]
        return [*(NodeLost(name) for name in names), *([ItemsLost(tuple(lost))] if lost else [])]
