"""Calls to workers: one carries several orders, its answer several reports; what lies in a store travels as reference.

The scheduler has workers go through their batches one after the other, so what they say has to be taken in that way:
answers in the order of the calls, however they arrive, and an order that never reached its worker when it is its turn.
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
from penstock.backends.ray.payload import FETCH_S, HELD_BY_CALLER, InStore, Shelf
from penstock.backends.ray.records import Records
from penstock.backends.ray.remote_worker import Call, RayWorkerHandle
from penstock.backends.ray.store_space import StoreSpace
from penstock.backends.reception import Reception
from penstock.backends.reports import Done, Failed, Gives, Report
from penstock.runtime.reproduction import write_failure
from penstock.runtime.transport import StoredTask
from penstock.schedule.actions import RunBatch
from penstock.schedule.events import Event, InputsLost

# Calls on their way to one worker: one it works on, one that waits there so that it need not.
_AT_ONCE = 2
# Who still has so many orders gets as many with the next call: a call costs the driver more than an order in it.
_PLENTY = 4


class Calls:
    """All calls of a run: those on their way, and workers that have something to be told.

    ``is_last`` says of a pool whether what it gives are results; ``is_expected`` whether a worker will be there soon;
    ``on_failure`` finds out what a call failed of if it was nothing that the worker was to be given.
    """

    def __init__(
        self,
        ears: AnswerQueue,
        records: Records,
        room: StoreSpace,
        reception: Reception,
        failure_folder: Path,
        *,
        is_last: Callable[[int], bool],
        is_expected: Callable[[], bool],
        on_failure: Callable[[RayWorkerHandle, BaseException | None], list[Event]],
    ) -> None:
        self._ears = ears
        self._records = records
        self._room = room
        self._reception = reception
        self._failure_folder = failure_folder
        self._is_last = is_last
        self._is_expected = is_expected
        self._on_failure = on_failure
        self._to_call: dict[str, RayWorkerHandle] = {}
        self._on_their_way = 0

    def order(self, worker: RayWorkerHandle, action: RunBatch) -> None:
        """Have a worker told to run a batch."""
        worker.orders[action.batch] = action
        worker.outbox.append(action)
        self._to_call[worker.id] = worker

    def grant(self, worker: RayWorkerHandle, batch: int, size: int, *, spill: bool) -> None:
        """Have a worker told that it may store what it asked for."""
        worker.grant = (batch, size, spill)
        self._to_call[worker.id] = worker

    def forget(self, worker: RayWorkerHandle) -> None:
        """Tell a worker nothing more, and take back the room kept for it."""
        if not worker.is_dead:  # calls that no answer will be taken of are not waited for
            self._on_their_way -= sum(call.outcome is None for call in worker.calls)
        worker.is_dead = True
        self._to_call.pop(worker.id, None)
        self._room.release(worker)

    def send(self) -> list[Event]:
        """Call every worker that has something to be told and is not called often enough already."""
        events: list[Event] = []
        for worker in list(self._to_call.values()):
            events += self._call(worker)
        for worker in list(self._to_call.values()):
            if events or self._on_their_way or self._is_expected():
                break
            events += self._call(worker, beyond=True)  # nobody works or is about to: nothing would be freed
        return events

    # ------------------------------------------------------------------------------------------------------

    def _call(self, worker: RayWorkerHandle, *, beyond: bool = False) -> list[Event]:
        """Call a worker; ``beyond`` the room there is, one order or one grant."""
        has_plenty = worker.calls and len(worker.orders) - len(worker.outbox) >= _PLENTY > len(worker.outbox)
        if worker.is_dead or len(worker.calls) >= _AT_ONCE or (has_plenty and worker.grant is None):
            self._to_call.pop(worker.id, None)  # its next answer brings it back
            return []
        grant = self._take_grant(worker, beyond=beyond)
        sendable = self._take_sendable(worker, beyond=beyond and grant is None)
        if not worker.outbox and worker.grant is None:
            self._to_call.pop(worker.id, None)
        if sendable or grant is not None or (worker.goes_on and not worker.calls):
            arguments: dict[int, tuple[int, Any]] = {}
            orders = tuple(self._in_words(worker, action, arguments) for action in sendable)
            references = [reference for _, reference in arguments.values()]
            reports, shelf = worker.work.remote(orders, grant[1:] if grant is not None else None, *references)
            worker.goes_on = False
            call = Call(tuple(sendable), grant, shelf)
            worker.calls.append(call)
            self._on_their_way += 1
            self._ears.listen(reports, partial(self._heard, worker, call))
        return self._turn_back(worker)

    def _take_grant(self, worker: RayWorkerHandle, *, beyond: bool) -> tuple[int, int, bool] | None:
        grant = worker.grant
        if grant is None or not (beyond or self._room.has(worker, grant[1])):
            return None
        worker.grant = None
        self._room.reserve(worker, *grant[:2])
        return grant

    def _take_sendable(self, worker: RayWorkerHandle, *, beyond: bool) -> list[RunBatch]:
        """Take what can be sent now: the inputs are there, and there is room for what becomes of them."""
        sendable: list[RunBatch] = []
        while worker.outbox:
            action = worker.outbox[0]
            if self._records.lacks(action.items):
                worker.turned_back.add(action.batch)
            elif sendable and (action.alone or sendable[-1].alone):
                break  # a call answers for all its orders: if the last ends the worker, the first would be suspect
            elif beyond or self._room.has(worker, action.credit):
                beyond = False
                sendable.append(action)
                self._room.reserve(worker, action.batch, action.credit)
            else:
                break
            worker.outbox.pop(0)
        return sendable

    def _in_words(self, worker: RayWorkerHandle, action: RunBatch, arguments: dict[int, tuple[int, Any]]) -> Order:
        """Put an order into words; what lies in a store becomes an argument of the call, once."""

        def where(place: Any) -> Where:  # noqa: ANN401
            if isinstance(place, bytes):
                return place
            number, _ = arguments.setdefault(id(place.shelf), (len(arguments), place.shelf.reference))
            return number, place.index

        places = tuple(where(self._records.stored(key).place) for key in action.items)
        free = action.spill or self._is_last(worker.pool)
        return Order(action.batch, places, action.credit, action.already, action.selections, action.probe, free)

    # ------------------------------------------------------------------------------------------------------

    def _heard(
        self, worker: RayWorkerHandle, call: Call, answer: Reports | None, error: BaseException | None
    ) -> list[Event]:
        """Take in an answer, and those that came too early, as far as none before them is missing."""
        if worker.is_dead:
            return []
        self._on_their_way -= 1
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
        shelf = Shelf(call.shelf, worker.node.id if answer.size >= HELD_BY_CALLER else None, 0)
        reports = [_placed(report, shelf) for report in answer.reports]
        if shelf.tasks and self._is_last(worker.pool):  # results are fetched at once, and nobody could make them again
            try:
                ray.get(shelf.reference, timeout=FETCH_S)
            except (ObjectLostError, GetTimeoutError) as lost:
                return self._on_failure(worker, lost)
        events: list[Event] = []
        for report in reports:
            events += self._turn_back(worker)
            events += self._reception.take(worker, report)
            if isinstance(report, Done | Failed):
                self._room.release(worker, (report.batch,))
        return events + self._turn_back(worker)

    def _failed(self, worker: RayWorkerHandle, call: Call, error: BaseException | None) -> list[Event]:
        """Find out what a call failed of: something that the worker was to be given and that is gone, or else."""
        cause = error.cause if isinstance(error, RayTaskError) else error
        if not isinstance(cause, ObjectLostError):
            return self._on_failure(worker, error)
        self._records.lose_object(getattr(cause, "object_ref_hex", ""), [key for a in call.orders for key in a.items])
        self._room.release(worker, [action.batch for action in call.orders])
        worker.turned_back |= {action.batch for action in call.orders}
        worker.grant = call.grant or worker.grant
        worker.goes_on = True  # as far as anybody knows: it was not asked
        self._to_call[worker.id] = worker
        return self._turn_back(worker)

    def _turn_back(self, worker: RayWorkerHandle) -> list[Event]:
        """Report orders that did not reach the worker, once everything that it was given before them has ended."""
        events: list[Event] = []
        while worker.turned_back and (batch := next(iter(worker.orders), None)) in worker.turned_back:
            worker.turned_back.discard(batch)
            action = worker.orders.pop(batch)
            events.append(InputsLost(worker.id, batch, tuple(self._records.missing(action.items))))
        return events


def _placed(report: Report, shelf: Shelf) -> Report:
    """Say where tasks lie now that the call has returned."""
    if not isinstance(report, Gives | Done):
        return report
    return report._replace(outputs=tuple(_on_shelf(output, shelf) for output in report.outputs))


def _on_shelf(output: StoredTask, shelf: Shelf) -> StoredTask:
    if not isinstance(output.place, int):
        return output
    shelf.tasks += 1
    return output._replace(place=InStore(shelf, output.place, output.size))
