"""Call worker actors: one call carries several orders, and its answer several reports.

Tasks in the object store are passed by reference. The scheduler assumes that workers process their batches in order, so
answers are processed in the order of the calls, regardless of the order in which they arrive, and an order that did not
reach its worker is reported when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayTaskError

from penstock.backends.ray.answers import AnswerQueue
from penstock.backends.ray.messages import Order, Reports, Where
from penstock.backends.ray.payload import FETCH_S, HELD_BY_CALLER, InStore, StoreObject
from penstock.backends.ray.records import Records
from penstock.backends.ray.remote_worker import Call, RayWorkerHandle
from penstock.backends.ray.store_space import StoreSpace
from penstock.backends.reception import Reception
from penstock.backends.reports import Done, Failed, Gives, Report
from penstock.runtime.reproduction import write_failure
from penstock.runtime.transport import StoredTask
from penstock.schedule.actions import RunBatch
from penstock.schedule.events import Event, InputsLost

# Calls to one worker at the same time: one in progress, and one queued so that the worker never waits.
_MAX_CALLS_PER_WORKER = 2
# A worker with at least this many orders is called again only with as many more: a call costs more than an order.
_MIN_ORDERS_PER_CALL = 4


class Calls:
    """All calls of a run: those in flight, and the workers with orders or credit to send.

    ``is_last`` tells whether the outputs of a pool are results; ``is_expected`` tells whether a worker will be ready
    soon; ``on_failure`` handles a failed call whose inputs were not lost.
    """

    def __init__(
        self,
        answers: AnswerQueue,
        records: Records,
        space: StoreSpace,
        reception: Reception,
        failure_folder: Path,
        *,
        is_last: Callable[[int], bool],
        is_expected: Callable[[], bool],
        on_failure: Callable[[RayWorkerHandle, BaseException | None], list[Event]],
    ) -> None:
        self._answers = answers
        self._records = records
        self._space = space
        self._reception = reception
        self._failure_folder = failure_folder
        self._is_last = is_last
        self._is_expected = is_expected
        self._on_failure = on_failure
        self._to_call: dict[str, RayWorkerHandle] = {}
        self._in_flight = 0

    def order(self, worker: RayWorkerHandle, action: RunBatch) -> None:
        """Queue a batch for a worker."""
        worker.orders[action.batch] = action
        worker.outbox.append(action)
        self._to_call[worker.id] = worker

    def grant(self, worker: RayWorkerHandle, batch: int, size: int, *, spill: bool) -> None:
        """Queue a grant of credit for a worker."""
        worker.grant = (batch, size, spill)
        self._to_call[worker.id] = worker

    def forget(self, worker: RayWorkerHandle) -> None:
        """Send nothing more to a worker, and release the space reserved for it."""
        if not worker.is_dead:  # answers to its calls are not awaited any more
            self._in_flight -= sum(call.outcome is None for call in worker.calls)
        worker.is_dead = True
        self._to_call.pop(worker.id, None)
        self._space.release(worker)

    def send(self) -> list[Event]:
        """Call every worker with queued orders or credit, unless it has enough calls in flight."""
        events: list[Event] = []
        for worker in list(self._to_call.values()):
            events += self._call(worker)
        for worker in list(self._to_call.values()):
            if events or self._in_flight or self._is_expected():
                break
            events += self._call(worker, beyond=True)  # no worker is or will be busy: no space would be freed
        return events

    # ------------------------------------------------------------------------------------------------------

    def _call(self, worker: RayWorkerHandle, *, beyond: bool = False) -> list[Event]:
        """Call a worker; with ``beyond``, send one order or one grant even if the store has no space for it."""
        sent, unsent = len(worker.orders) - len(worker.outbox), len(worker.outbox)
        has_enough = worker.calls and sent >= _MIN_ORDERS_PER_CALL > unsent
        if worker.is_dead or len(worker.calls) >= _MAX_CALLS_PER_WORKER or (has_enough and worker.grant is None):
            self._to_call.pop(worker.id, None)  # its next answer adds it again
            return []
        grant = self._take_grant(worker, beyond=beyond)
        sendable = self._take_sendable(worker, beyond=beyond and grant is None)
        if not worker.outbox and worker.grant is None:
            self._to_call.pop(worker.id, None)
        if sendable or grant is not None or (worker.goes_on and not worker.calls):
            arguments: dict[int, tuple[int, Any]] = {}
            orders = tuple(self._make_order(worker, action, arguments) for action in sendable)
            references = [reference for _, reference in arguments.values()]
            reports, payload = worker.work.remote(orders, grant[1:] if grant is not None else None, *references)
            worker.goes_on = False
            call = Call(tuple(sendable), grant, payload)
            worker.calls.append(call)
            self._in_flight += 1
            self._answers.listen(reports, partial(self._heard, worker, call))
        return self._turn_back(worker)

    def _take_grant(self, worker: RayWorkerHandle, *, beyond: bool) -> tuple[int, int, bool] | None:
        grant = worker.grant
        if grant is None or not (beyond or self._space.has(worker, grant[1])):
            return None
        worker.grant = None
        self._space.reserve(worker, *grant[:2])
        return grant

    def _take_sendable(self, worker: RayWorkerHandle, *, beyond: bool) -> list[RunBatch]:
        """Take the orders that can be sent now: their inputs exist, and the store has space for their outputs."""
        sendable: list[RunBatch] = []
        while worker.outbox:
            action = worker.outbox[0]
            if self._records.lacks(action.items):
                worker.turned_back.add(action.batch)
            elif sendable and (action.alone or sendable[-1].alone):
                break  # if the worker dies in one order of a call, all orders of that call are suspect
            elif beyond or self._space.has(worker, action.credit):
                beyond = False
                sendable.append(action)
                self._space.reserve(worker, action.batch, action.credit)
            else:
                break
            worker.outbox.pop(0)
        return sendable

    def _make_order(self, worker: RayWorkerHandle, action: RunBatch, arguments: dict[int, tuple[int, Any]]) -> Order:
        """Make the message of an order; each object in the store becomes one argument of the call."""

        def where(place: Any) -> Where:  # noqa: ANN401
            if isinstance(place, bytes):
                return place
            number, _ = arguments.setdefault(id(place.store_object), (len(arguments), place.store_object.reference))
            return number, place.index

        places = tuple(where(self._records.stored(key).place) for key in action.items)
        free = action.spill or self._is_last(worker.pool)
        return Order(action.batch, places, action.credit, action.already, action.selections, action.probe, free)

    # ------------------------------------------------------------------------------------------------------

    def _heard(
        self, worker: RayWorkerHandle, call: Call, answer: Reports | None, error: BaseException | None
    ) -> list[Event]:
        """Process an answer, and later answers that arrived before it, in the order of the calls."""
        if worker.is_dead:
            return []
        self._in_flight -= 1
        call.outcome = (answer, error)
        events: list[Event] = []
        while worker.calls and (outcome := worker.calls[0].outcome) is not None and not worker.is_dead:
            events += self._take_in(worker, worker.calls.popleft(), *outcome)
        return events

    def _take_in(
        self, worker: RayWorkerHandle, call: Call, answer: Reports | None, error: BaseException | None
    ) -> list[Event]:
        if answer is None:
            return self._failed(worker, call, error)
        for failure in answer.failures:
            write_failure(self._failure_folder / failure.name, failure.body)
        worker.goes_on = answer.goes_on
        if worker.outbox or worker.goes_on or worker.grant is not None:
            self._to_call[worker.id] = worker
        store_object = StoreObject(call.payload, worker.node.id if answer.size >= HELD_BY_CALLER else None, 0)
        reports = [_placed(report, store_object) for report in answer.reports]
        if store_object.tasks and self._is_last(worker.pool):  # results are fetched at once: they cannot be made again
            try:
                ray.get(store_object.reference, timeout=FETCH_S)
            except (ObjectLostError, GetTimeoutError) as lost:
                return self._on_failure(worker, lost)
        events: list[Event] = []
        for report in reports:
            events += self._turn_back(worker)
            events += self._reception.take(worker, report)
            if isinstance(report, Done | Failed):
                self._space.release(worker, (report.batch,))
        return events + self._turn_back(worker)

    def _failed(self, worker: RayWorkerHandle, call: Call, error: BaseException | None) -> list[Event]:
        """Handle a failed call: mark its inputs as lost if that is the cause, else call ``on_failure``."""
        cause = error.cause if isinstance(error, RayTaskError) else error
        if not isinstance(cause, ObjectLostError):
            return self._on_failure(worker, error)
        self._records.lose_object(getattr(cause, "object_ref_hex", ""), [key for a in call.orders for key in a.items])
        self._space.release(worker, [action.batch for action in call.orders])
        worker.turned_back |= {action.batch for action in call.orders}
        worker.grant = call.grant or worker.grant
        worker.goes_on = True  # unknown, because the call did not reach it
        self._to_call[worker.id] = worker
        return self._turn_back(worker)

    def _turn_back(self, worker: RayWorkerHandle) -> list[Event]:
        """Report orders that did not reach the worker, after all earlier orders have ended."""
        events: list[Event] = []
        while worker.turned_back and (batch := next(iter(worker.orders), None)) in worker.turned_back:
            worker.turned_back.discard(batch)
            action = worker.orders.pop(batch)
            events.append(InputsLost(worker.id, batch, tuple(self._records.missing(action.items))))
        return events


def _placed(report: Report, store_object: StoreObject) -> Report:
    """Replace the numbers of tasks in the answer by their location in the object store."""
    if not isinstance(report, Gives | Done):
        return report
    return report._replace(outputs=tuple(_in_object(output, store_object) for output in report.outputs))


def _in_object(output: StoredTask, store_object: StoreObject) -> StoredTask:
    if not isinstance(output.place, int):
        return output
    store_object.tasks += 1
    return output._replace(place=InStore(store_object, output.place, output.size))
