"""The driver's side of the Ray backend: actors for workers, references for data, futures for ears."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import ceil, floor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import ray
from ray.exceptions import ObjectLostError, OutOfMemoryError, RayActorError, RayError, RayTaskError

from penstock.backends.local.messages import Done, Failed, Gives, Wants
from penstock.backends.ray.actor import ActorOrders, StageWorker
from penstock.backends.ray.keeper import LastWords
from penstock.backends.ray.messages import Introduction, Order, Reports, SetUp, Where
from penstock.backends.ray.nodes import RayNode, RayNodes
from penstock.backends.ray.payload import HELD_BY_CALLER, InStore, Shelf, pack
from penstock.backends.ray.records import Records
from penstock.backends.travelling import pickled_chain, preludes
from penstock.core.task import Task
from penstock.ledger.keeping import KeptLedger
from penstock.plan.plan import Plan
from penstock.runtime.books import Books
from penstock.runtime.machine import GB
from penstock.runtime.selection import rows_of
from penstock.runtime.transport import Stored, dump_task, joined, size_of
from penstock.schedule.actions import (
    Action,
    DeadLetter,
    DropItem,
    GrantCredit,
    KillWorker,
    RunBatch,
    StartWorker,
    StopWorker,
)
from penstock.schedule.events import (
    BatchDone,
    BatchFailed,
    CreditWanted,
    Emitted,
    Event,
    InputsLost,
    ItemsLost,
    NodeAdded,
    NodeLost,
    Output,
    StopAsked,
    WorkerGone,
    WorkerLost,
    WorkerReady,
)
from penstock.schedule.state import item_key

_SMALL = 8192
# Calls on their way to one worker: one it works on, one that waits there so that it need not.
_CALLS_AT_ONCE = 2
# Who still has so many orders gets as many with the next call: a call costs the driver more than an order in it.
_PLENTY = 4
_LOOK_AT_NODES_EVERY_S = 1.0
_LOOK_AT_MEMORY_EVERY_S = 0.5
_STOP_PATIENCE_S = 30.0
# Ray writes objects to disk when a store is fuller than 0.8; work is held back before that.
STORE_SHARE = 0.6
# Ray counts in ten-thousandths. Rounded down, shares that fill a GPU exactly still fit.
_GRAIN = 10_000


@dataclass(eq=False)
class RemoteWorker:
    """A worker actor as the driver sees it."""

    id: str
    pool: int
    node: RayNode
    actor: Any
    # How it is called: Ray makes a new thing of a method each time it is named.
    work: Any
    pid: int | None = None
    is_up: bool = False
    # What it was given and has not ended, in order; and what of that was not sent yet.
    orders: dict[int, RunBatch] = field(default_factory=dict)
    outbox: list[RunBatch] = field(default_factory=list)
    grant: tuple[int, bool] | None = None
    # Bytes it may store without asking, by batch.
    reserved: Counter[int] = field(default_factory=Counter)
    goes_on: bool = False
    calls: int = 0
    ending: bool = False
    is_dead: bool = False
    kill_reason: str = ""
    stop_by: float = float("inf")


@dataclass(frozen=True)
class _Call:
    """One call on its way: who was called, with which orders, and where what it stores will lie."""

    worker: RemoteWorker
    orders: tuple[RunBatch, ...]
    shelf: Any


class RayBackend:
    """Carries out actions with actors of a Ray cluster."""

    def __init__(
        self,
        plan: Plan,
        nodes: RayNodes,
        books: Books,
        *,
        max_attempts: int,
        failure_folder: Path,
        ledger: KeptLedger | None = None,
    ) -> None:
        self._plan = plan
        self._nodes = nodes
        self._books = books
        self._max_attempts = max_attempts
        self._failure_folder = failure_folder
        self._ledger = ledger
        self._chains = [ray.put(pickled_chain(plan.pipeline, pool.steps)) for pool in plan.pools]
        self._actor_class = ray.remote(StageWorker)
        self._workers: dict[str, RemoteWorker] = {}
        self._to_send: dict[str, RemoteWorker] = {}
        self._records = Records()
        # What Ray's threads have heard: called on this one, in order.
        self._heard: SimpleQueue[Callable[[], list[Event]]] = SimpleQueue()
        self._calls = 0
        # Whether anything in the store was ever lost; until then nobody looks whether a task is there.
        self._lost_something = False
        # Bytes that lie on each machine, and those that workers there may add without asking.
        self._held: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()
        self._limits = [int((pool.resources.memory_gb or 0) * GB) for pool in plan.pools]
        self._next_look_at_nodes = 0.0
        self._next_look_at_memory = 0.0
        self._resident: dict[str, int] = {}
        self.peak_resident = 0

    # -- the backend protocol ------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time."""
        return time.monotonic()

    def carry_out(self, action: Action) -> None:
        """Do it, or begin to do it."""
        match action:
            case StartWorker():
                self._start(action)
            case StopWorker(worker_id):
                if (worker := self._workers.get(worker_id)) is not None:
                    self._stop(worker)
            case KillWorker(worker_id):
                if (worker := self._workers.pop(worker_id, None)) is not None:
                    self._discard(worker)
                    self._heard.put(lambda: [WorkerGone(worker_id)])
            case RunBatch(worker_id):
                if (worker := self._workers.get(worker_id)) is not None:
                    worker.orders[action.batch] = action
                    worker.outbox.append(action)
                    self._to_send[worker.id] = worker
            case GrantCredit(worker_id, batch, size, spill):
                if (worker := self._workers.get(worker_id)) is not None:
                    worker.grant = (size, spill)
                    self._reserve(worker, batch, size)
                    self._to_send[worker.id] = worker
            case DropItem(key):
                self._drop(key)
            case DeadLetter():
                self._dead_letter(action)

    def wait(self, until: float) -> Sequence[Event]:
        """Return what has happened, as soon as something has."""
        events = self._send_all()
        timeout = min(until, self._next_look_at_nodes, self._next_look_at_memory) - self.now()
        with suppress(Empty):
            happened = self._heard.get(timeout=timeout) if timeout > 0 and not events else self._heard.get_nowait()
            while True:
                events += happened()
                happened = self._heard.get_nowait()
        if self.now() >= self._next_look_at_nodes:
            events += self._look_at_nodes()
        if self.now() >= self._next_look_at_memory:
            events += self._look_at_memory()
        return events

    # -- what the executor uses ----------------------------------------------------------------------------

    def put(self, key: str, task: Task[Any]) -> Stored:
        """Store a task that a run begins with."""
        parts = dump_task(task)
        is_small = size_of(parts) <= _SMALL
        place = joined(parts) if is_small else InStore(Shelf(ray.put([pack(task)]), None, 1), 0, 0)
        stored = Stored(task.task_id, task._order, task._sources, 0, rows_of(task), place)
        self._records.add(key, stored, ())
        return stored

    def ask_to_stop(self) -> None:
        """Note that the user wants to stop; may be called from a signal handler."""
        self._heard.put(lambda: [StopAsked()])

    def wake_on(self, descriptor: int) -> None:
        """Need no waking: whoever interrupts a wait leaves something to hear."""

    def close(self) -> None:
        """End everything that is still there, and leave nothing behind."""
        for worker in self._workers.values():
            self._discard(worker)
        self._workers.clear()
        self._records.clear()
        self._nodes.close()

    # -- workers -------------------------------------------------------------------------------------------

    def _start(self, action: StartWorker) -> None:
        node = self._nodes.by_name.get(action.placement.node)
        if node is None:  # it is gone, and the scheduler will hear so
            return
        pool = self._plan.pools[action.pool]
        need = pool.resources
        gpus = node.node.gpus
        share = need.gpu_share(gpus[action.placement.gpus[0]].memory_gb) if action.placement.gpus else 0.0
        orders = ActorOrders(
            worker=action.worker,
            pool=action.pool,
            node_id=node.id,
            max_attempts=self._max_attempts,
            threads=max(1, ceil(need.cpus)),
            gpu_share=share,
            node_folder=node.folder,
            failure_folder=str(self._failure_folder),
            ledger=self._ledger.orders(action.pool) if self._ledger is not None else None,
            working_folder=str(Path.cwd()),
            sys_path=tuple(sys.path),
            preludes=preludes(),
        )
        options = {"memory": int(need.memory_gb * GB)} if need.memory_gb is not None else {}
        actor = self._actor_class.options(
            num_cpus=_rounded(need.cpus),
            num_gpus=_rounded(share),
            scheduling_strategy=node.affinity,
            runtime_env=pool.stages[0].runtime_env,
            max_restarts=0,
            max_task_retries=0,
            **options,
        ).remote(orders)
        worker = RemoteWorker(action.worker, action.pool, node, actor, actor.work.options(num_returns=2))
        self._workers[worker.id] = worker
        self._listen(actor.introduce.remote(), partial(self._introduced, worker))
        self._listen(actor.set_up.remote(self._chains[action.pool]), partial(self._is_set_up, worker))

    def _listen(self, reference: Any, then: Callable[[Any, BaseException | None], list[Event]]) -> None:  # noqa: ANN401
        """Have an answer passed on when it comes."""

        def heard(future: Any) -> None:  # noqa: ANN401 - of Ray's making
            error = future.exception()
            answer = None if error is not None else future.result()
            self._heard.put(lambda: then(answer, error))

        reference.future().add_done_callback(heard)

    def _introduced(
        self, worker: RemoteWorker, answer: Introduction | None, _error: BaseException | None
    ) -> list[Event]:
        if answer is not None:
            worker.pid = answer.pid
        return []

    def _is_set_up(self, worker: RemoteWorker, answer: SetUp | None, error: BaseException | None) -> list[Event]:
        if worker.id not in self._workers:
            return []
        if answer is None:
            return self._died(worker, error)
        if answer.trouble is not None:
            del self._workers[worker.id]
            self._discard(worker)
            return [WorkerGone(worker.id)] if worker.ending else [WorkerLost(worker.id, answer.trouble)]
        worker.is_up = True
        return [WorkerReady(worker.id)]

    def _stop(self, worker: RemoteWorker) -> None:
        worker.ending = True
        worker.stop_by = self.now() + _STOP_PATIENCE_S
        self._listen(worker.actor.stop.remote(), partial(self._stopped, worker))

    def _stopped(self, worker: RemoteWorker, _answer: None, _error: BaseException | None) -> list[Event]:
        if self._workers.pop(worker.id, None) is None:
            return []
        self._discard(worker)
        return [WorkerGone(worker.id)]

    def _discard(self, worker: RemoteWorker) -> None:
        """End an actor, and forget what it was told."""
        worker.is_dead = True
        self._to_send.pop(worker.id, None)
        self._release(worker, list(worker.reserved))
        with suppress(RayError):
            ray.kill(worker.actor)

    def _died(self, worker: RemoteWorker, error: BaseException | None) -> list[Event]:
        """Ask the worker's machine what is left of it, before saying that it is lost."""
        if worker.is_dead:
            return []
        worker.is_dead = True
        self._to_send.pop(worker.id, None)
        self._release(worker, list(worker.reserved))
        answer = worker.node.keeper.last_words.remote(worker.id, worker.pid)
        self._listen(answer, partial(self._last_words, worker, error))
        return []

    def _last_words(
        self, worker: RemoteWorker, death: BaseException | None, words: LastWords | None, trouble: BaseException | None
    ) -> list[Event]:
        if worker.id not in self._workers:
            return []
        if words is None:  # nobody answers for that machine any more: it is gone, with everything on it
            return self._lose_node(worker.node.node.name)
        del self._workers[worker.id]
        if worker.ending:
            return [WorkerGone(worker.id)]
        reason, from_outside = _how_it_ended(worker, death, words)
        return [WorkerLost(worker.id, reason, words.step, words.rows, from_outside)]

    # -- machines ------------------------------------------------------------------------------------------

    def _look_at_nodes(self) -> list[Event]:
        """See which machines have come or gone, and end workers that do not stop."""
        self._next_look_at_nodes = self.now() + max(_LOOK_AT_NODES_EVERY_S, len(self._nodes.by_name) / 100)
        events: list[Event] = []
        for worker in [worker for worker in self._workers.values() if self.now() > worker.stop_by]:
            events += self._stopped(worker, None, None)
        for name in self._nodes.changes(lambda node_id, answer: self._listen(answer, partial(self._joined, node_id))):
            events += self._lose_node(name)
        return events

    def _joined(self, node_id: str, answer: Any, _error: BaseException | None) -> list[Event]:  # noqa: ANN401
        found = self._nodes.admit(node_id, answer) if answer is not None else None
        return [NodeAdded(found.node)] if found is not None else []

    def _lose_node(self, name: str) -> list[Event]:
        """Note that a machine is gone: its workers, and what lay there and nobody has taken yet."""
        if name not in self._nodes.by_name:
            return []
        self._nodes.forget(name)
        self._lost_something = True
        self._resident.pop(name, None)
        for worker in [worker for worker in self._workers.values() if worker.node.node.name == name]:
            del self._workers[worker.id]
            self._discard(worker)
        self._held.pop(name, None)
        self._reserved.pop(name, None)
        taken = {key for worker in self._workers.values() for order in worker.orders.values() for key in order.items}
        lost = [key for key in self._records.lose(name) if key not in taken]
        return [NodeLost(name), *([ItemsLost(tuple(lost))] if lost else [])]

    def _look_at_memory(self) -> list[Event]:
        """Have workers killed that use more memory than their stages declared."""
        self._next_look_at_memory = self.now() + _LOOK_AT_MEMORY_EVERY_S
        limits: dict[str, dict[int, int]] = {}
        for worker in self._workers.values():
            if worker.pid is not None and not worker.is_dead:
                limits.setdefault(worker.node.node.name, {})[worker.pid] = self._limits[worker.pool]
        if not any(self._limits):  # only to know how much is used: not worth asking often
            self._next_look_at_memory += 4 * _LOOK_AT_MEMORY_EVERY_S
        for name, of_node in limits.items():
            answer = self._nodes.by_name[name].keeper.end_what_exceeds.remote(of_node)
            self._listen(answer, partial(self._exceeded, name))
        return []

    def _exceeded(self, node: str, answer: dict[int, int] | None, _error: BaseException | None) -> list[Event]:
        if answer is None:
            return []
        self._resident[node] = answer.pop(0)
        self.peak_resident = max(self.peak_resident, sum(self._resident.values()))
        for worker in self._workers.values():
            if worker.node.node.name == node and worker.pid in answer:
                limit = self._limits[worker.pool] / GB
                used = answer[worker.pid] / GB
                worker.kill_reason = f"used {used:.2f} GB of memory, more than its memory_gb={limit:g}"
        return []

    # -- calls ---------------------------------------------------------------------------------------------

    def _send_all(self) -> list[Event]:
        """Call every worker that has something to be told and is not called often enough already."""
        events: list[Event] = []
        for worker in list(self._to_send.values()):
            events += self._send(worker)
        return events

    def _send(self, worker: RemoteWorker) -> list[Event]:
        has_plenty = worker.calls > 0 and len(worker.orders) - len(worker.outbox) >= _PLENTY > len(worker.outbox)
        if worker.is_dead or worker.calls >= _CALLS_AT_ONCE or (has_plenty and worker.grant is None):
            self._to_send.pop(worker.id, None)  # its next answer brings it back
            return []
        if worker.outbox and self._lacks(worker.outbox[0]):
            return self._say_what_is_missing(worker)
        sendable: list[RunBatch] = []
        for action in worker.outbox:
            if self._lacks(action) or not self._has_room(worker, action.credit):
                break
            sendable.append(action)
            self._reserve(worker, action.batch, action.credit)
        goes_on = worker.goes_on and worker.calls == 0
        if not sendable and worker.grant is None and not goes_on:
            if not worker.outbox:
                self._to_send.pop(worker.id, None)
            return []
        del worker.outbox[: len(sendable)]
        if not worker.outbox:
            self._to_send.pop(worker.id, None)
        arguments: dict[int, tuple[int, Any]] = {}
        orders = tuple(self._order(worker, action, arguments) for action in sendable)
        references = [reference for _, reference in arguments.values()]
        reports, shelf = worker.work.remote(orders, worker.grant, *references)
        worker.grant, worker.goes_on = None, False
        worker.calls += 1
        self._calls += 1
        self._listen(reports, partial(self._answered, _Call(worker, tuple(sendable), shelf)))
        return []

    def _order(self, worker: RemoteWorker, action: RunBatch, arguments: dict[int, tuple[int, Any]]) -> Order:
        """Put an order into words; what lies in the store becomes an argument of the call, once."""

        def where(place: Any) -> Where:  # noqa: ANN401
            if isinstance(place, bytes):
                return place
            number, _ = arguments.setdefault(id(place.shelf), (len(arguments), place.shelf.reference))
            return number, place.index

        places = tuple(where(self._records.find(key).stored.place) for key in action.items)
        free = action.spill or worker.pool + 1 == len(self._plan.pools)
        return Order(action.batch, places, action.credit, action.already, action.selections, action.probe, free)

    def _lacks(self, action: RunBatch) -> bool:
        return self._lost_something and bool(self._records.missing(action.items))

    def _say_what_is_missing(self, worker: RemoteWorker) -> list[Event]:
        """Report an order that cannot be sent; only when it is the worker's next, which is the one it is said of."""
        action = worker.outbox[0]
        if next(iter(worker.orders)) != action.batch:
            self._to_send.pop(worker.id, None)  # the answer to what it runs brings it back
            return []
        worker.outbox.pop(0)
        del worker.orders[action.batch]
        return [InputsLost(worker.id, action.batch, tuple(self._records.missing(action.items)))]

    def _has_room(self, worker: RemoteWorker, size: int) -> bool:
        """Tell whether a machine has room for what a worker may store; if nothing runs at all, it has to do."""
        name = worker.node.node.name
        limit = STORE_SHARE * worker.node.store_bytes
        return self._calls == 0 or size == 0 or self._held[name] + self._reserved[name] + size <= limit

    def _reserve(self, worker: RemoteWorker, batch: int, size: int) -> None:
        worker.reserved[batch] += size
        self._reserved[worker.node.node.name] += size

    def _release(self, worker: RemoteWorker, batches: Iterable[int]) -> None:
        """Take back what was reserved for batches."""
        self._reserved[worker.node.node.name] -= sum(worker.reserved.pop(batch, 0) for batch in batches)

    def _answered(self, call: _Call, answer: Reports | None, error: BaseException | None) -> list[Event]:
        worker = call.worker
        self._calls -= 1
        worker.calls -= 1
        if self._workers.get(worker.id) is not worker or worker.is_dead:
            return []
        if answer is None:
            return self._call_failed(call, error)
        for failure in answer.failures:
            self._failure_folder.mkdir(parents=True, exist_ok=True)
            (self._failure_folder / failure.name).write_bytes(failure.body)
        worker.goes_on = answer.goes_on
        if worker.outbox or worker.goes_on or worker.grant is not None:
            self._to_send[worker.id] = worker
        stored = sum(isinstance(entry.place, int) for report in answer.reports
                     if isinstance(report, Gives | Done) for entry in report.outputs)  # fmt: skip
        node = worker.node.node.name if answer.size >= HELD_BY_CALLER else None
        shelf = Shelf(call.shelf, node, stored)
        return [event for report in answer.reports for event in self._translate(worker, report, shelf)]

    def _call_failed(self, call: _Call, error: BaseException | None) -> list[Event]:
        """Find out what a call failed of: the worker's death, or something it was to be given and that is gone."""
        worker = call.worker
        cause = error.cause if isinstance(error, RayTaskError) else error
        if not isinstance(cause, ObjectLostError):
            if isinstance(cause, RayActorError | OutOfMemoryError) or isinstance(error, RayActorError):
                return self._died(worker, error)
            del self._workers[worker.id]
            self._discard(worker)
            return [WorkerLost(worker.id, f"{type(cause).__name__}: {cause}")]
        self._lost_something = True
        self._records.lose_object(getattr(cause, "object_ref_hex", ""), [key for a in call.orders for key in a.items])
        self._release(worker, [action.batch for action in call.orders])
        worker.outbox[:0] = call.orders
        self._to_send[worker.id] = worker
        return []

    # -- tasks ---------------------------------------------------------------------------------------------

    def _translate(self, worker: RemoteWorker, report: Gives | Done | Failed | Wants, shelf: Shelf) -> list[Event]:
        match report:
            case Wants(batch, size):
                return [CreditWanted(worker.id, batch, size)]
            case Gives(batch, outputs):
                return self._gives(worker, batch, outputs, shelf)
            case Done(batch, outputs, seconds, resident, counters, rejections):
                given = self._gives(worker, batch, outputs, shelf)
                order = worker.orders.pop(batch)
                self._release(worker, [batch])
                if not order.again:
                    self._books.count(worker.pool, counters)
                    inputs = [self._records.find(key).stored for key in order.items]
                    self._books.done(inputs, rejections, probe=order.probe)
                return [*given, BatchDone(worker.id, batch, seconds, resident)]
            case Failed(batch, reason, counters):
                self._books.count(worker.pool, counters)
                worker.orders.pop(batch)
                self._release(worker, [batch])
                return [BatchFailed(worker.id, batch, reason)]

    def _gives(self, worker: RemoteWorker, batch: int, outputs: Sequence[Stored], shelf: Shelf) -> list[Event]:
        """Note what a worker stored; of what a checkpoint has already, nothing goes on."""
        is_source = worker.pool == 0 and not self._books.given_sources
        last = worker.pool + 1 == len(self._plan.pools)
        parents = tuple(self._records.find(key) for key in worker.orders[batch].items)
        entered: list[Stored] = []
        entries: list[Output] = []
        for output in outputs:
            stored = self._placed(output, shelf)
            if is_source and self._books.settlement.is_done(stored.id):
                stored.remove()
                continue
            if last:
                self._books.result(stored)
                entered.append(stored)
            elif not self._records.add(item_key(worker.pool + 1, stored.id), stored, parents):
                entered.append(stored)
            if not last:
                self._charge(stored, 1)
            entries.append(Output(stored.id, stored.order, stored.size, stored.rows))
        self._books.emitted(entered, last=last)
        return [Emitted(worker.id, batch, tuple(entries))] if entries else []

    def _placed(self, output: Stored, shelf: Shelf) -> Stored:
        """Say where a task lies now that the call has returned."""
        if not isinstance(output.place, int):
            return output
        return output._replace(place=InStore(shelf, output.place, output.size))

    def _charge(self, stored: Stored, sign: int) -> None:
        """Count what lies on a machine."""
        place = stored.place
        if isinstance(place, InStore) and place.shelf.node is not None and not place.shelf.is_lost:
            self._held[place.shelf.node] += sign * place.size

    def _drop(self, key: str) -> None:
        record = self._records.drop(key)
        if record is not None:
            self._charge(record.stored, -1)
            record.stored.remove()

    def _dead_letter(self, action: DeadLetter) -> None:
        stored = [self._records.find(key).stored for key in action.items]
        whole = action.rows is None
        self._books.dead_letter(self._plan.pools[action.pool], stored, action, closes=whole)


def _rounded(amount: float) -> float:
    """Round to what Ray can count, never up: shares that fill a device must still fit."""
    return floor(amount * _GRAIN + 1e-6) / _GRAIN


def _how_it_ended(worker: RemoteWorker, death: BaseException | None, words: LastWords) -> tuple[str, bool]:
    """Return why a worker died, and whether somebody else may have ended it."""
    log = "".join(f"\n    | {line}" for line in words.log.splitlines())
    said = f"\n    its log ends with:{log}" if log else ""
    if worker.kill_reason:
        return worker.kill_reason, False
    if words.signal is not None:
        return f"the worker process was ended by {words.signal}{said}", False
    if not worker.is_up and not isinstance(death, RayActorError):
        return f"{type(death).__name__}: {death}{said}", False
    detail = str(death or "")
    if "runtime_env" in detail or "RuntimeEnv" in detail or "creation task" in detail:
        return f"{detail.strip().splitlines()[-1]}{said}", False
    if "memory" in detail and "OutOfMemory" in type(death).__name__ + detail:
        return f"the worker was ended by Ray because its machine ran out of memory{said}", True
    return f"the worker process ended without a word (killed, out of memory, or os._exit){said}", True
