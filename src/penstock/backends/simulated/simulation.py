"""A backend in virtual time: simulated workers schedule their events in a calendar."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from penstock.backends.simulated.law import Law, Order
from penstock.backends.simulated.trace import Trace
from penstock.core.cluster import Node
from penstock.schedule.actions import (
    Action,
    AskWorker,
    DeadLetter,
    DropItems,
    GrantCredit,
    KillWorker,
    RunBatch,
    Selection,
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
    WorkerAnswered,
    WorkerGone,
    WorkerLost,
    WorkerPlaced,
    WorkerReady,
)
from penstock.schedule.state import item_key

Happening = Callable[[], list[Event]]
# After this many wakes with an empty calendar, the run will never end.
_MAX_IDLE_WAKES = 100_000


@dataclass
class SimulatedWorker:
    """One worker: its batches, and the outputs that it has still to store."""

    id: str
    pool: int
    node: str
    batches: deque[RunBatch] = field(default_factory=deque)
    pending: deque[Output] = field(default_factory=deque)
    credit: int = 0
    service: float = 0.0
    began_at: float = 0.0
    # Whether it sends no more messages; whether one of its reports was lost, and with it all later ones.
    is_silent: bool = False
    has_lost_report: bool = False


@dataclass
class SimulatedItem:
    """An item that is stored between two pools."""

    order: Order
    rows: int
    size: int = 0
    # The node that stores it; None for initial items, which the driver stores.
    node: str | None = None


class Simulation:
    """Carry out actions by adding their consequences to a calendar."""

    def __init__(self, laws: Sequence[Law], seed: int = 0, *, record: bool = False, tells_places: bool = False) -> None:
        self.trace = Trace()
        self._laws = laws
        self._chance = random.Random(seed)
        self._time = 0.0
        self._count = itertools.count()
        self._calendar: list[tuple[float, int, Happening]] = []
        self._workers: dict[str, SimulatedWorker] = {}
        self._items: dict[str, SimulatedItem] = {}
        # Consumed items: they can be used again only if the driver stored them.
        self._consumed: dict[str, SimulatedItem] = {}
        self._bytes = 0
        self._immediate: list[Event] = []
        self._record = record
        # Whether to report when a worker has its resources, before it is ready.
        self._tells_places = tells_places
        self._setups = [0] * len(laws)
        self._idle_wakes = 0
        self._silent_nodes: set[str] = set()

    # -- the backend protocol ------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the virtual time."""
        return self._time

    def carry_out(self, action: Action) -> None:
        """Add the consequences of an action to the calendar."""
        if self._record:
            self.trace.log.append((self._time, action))
        match action:
            case StartWorker(worker, pool, placement):
                self._start(worker, pool, placement.node)
            case StopWorker(worker):
                self._stop(worker)
            case KillWorker(worker):
                self._kill(worker)
            case AskWorker(worker):
                self._ask(worker)
            case RunBatch(worker):
                if worker in self._workers and self._hears(worker) and not self._lacks_inputs(action):
                    self._workers[worker].batches.append(action)
                    if len(self._workers[worker].batches) == 1:
                        self._begin(self._workers[worker])
            case GrantCredit(worker, _, size, spill):
                if worker in self._workers and self._hears(worker):
                    self._workers[worker].credit += size
                    self._immediate += self._store(self._workers[worker], spill=spill)
            case DropItems(items):
                for item in items:
                    self._drop(item)
            case DeadLetter():
                self.trace.dead.append(action)

    def wait(self, until: float) -> list[Event]:
        """Advance the clock to the next event in the calendar, or to ``until``."""
        events = self._next_events(until)
        if self._record:
            self.trace.log += [(self._time, event) for event in events]
            self.trace.handled.append((self._time, tuple(events)))
        return events

    def _next_events(self, until: float) -> list[Event]:
        if self._immediate:
            events, self._immediate = self._immediate, []
            return events
        if not self._calendar or self._calendar[0][0] > until:
            self._idle_wakes = 0 if self._calendar else self._idle_wakes + 1
            if until == inf or self._idle_wakes > _MAX_IDLE_WAKES:
                raise RuntimeError("the calendar is empty, and the run is not finished")
            self._time = max(self._time, until)
            return []
        self._time, _, happen = heapq.heappop(self._calendar)
        return happen()

    # -- what tests do to it -------------------------------------------------------------------------------

    def at(self, time: float, happen: Happening) -> None:
        """Schedule something for a time."""
        heapq.heappush(self._calendar, (time, next(self._count), happen))

    def kill_worker(self, chance: random.Random) -> list[Event]:
        """Kill a random worker, as the operating system would."""
        alive = sorted(self._workers)
        return self._lose(chance.choice(alive), "killed") if alive else []

    def kill_on(self, node: str) -> list[Event]:
        """Kill the busy workers of a node, as the operating system would."""
        workers = [worker.id for worker in self._workers.values() if worker.node == node and worker.batches]
        lost = [event for worker in workers for event in self._lose(worker, "killed")]
        return [event._replace(from_outside=True) for event in lost if isinstance(event, WorkerLost)]

    def lose_node(self, name: str) -> list[Event]:
        """Remove a node with its workers and stored items, except items that a worker has already received."""
        for worker in [w for w in self._workers.values() if w.node == name]:
            self._count_lost(worker)
            del self._workers[worker.id]
        taken = {key for worker in self._workers.values() for batch in worker.batches for key in batch.items}
        lost = [key for key, stored in self._items.items() if stored.node == name and key not in taken]
        for key in lost:
            self._drop(key)
        return [NodeLost(name), *([ItemsLost(tuple(lost))] if lost else [])]

    def silence_node(self, name: str) -> list[Event]:
        """Let a node vanish without notice: its workers, and new ones started there, send no messages."""
        self._silent_nodes.add(name)
        for worker in self._workers.values():
            worker.is_silent = worker.is_silent or worker.node == name
        return []

    def add_node(self, node: Node) -> list[Event]:
        """Add a node."""
        return [NodeAdded(node)]

    def add_items(self, outputs: Sequence[Output]) -> None:
        """Add the initial items of a run."""
        for output in outputs:
            self._items[item_key(0, output.id)] = SimulatedItem(output.order, output.rows)

    @property
    def stored_items(self) -> int:
        """The number of items stored between pools."""
        return len(self._items)

    # -- workers -------------------------------------------------------------------------------------------

    def _start(self, worker: str, pool: int, node: str) -> None:
        law = self._laws[pool]
        self.trace.starts += 1
        self._workers[worker] = SimulatedWorker(worker, pool, node)
        self._setups[pool] += 1
        attempt = self._setups[pool]
        fails = law.setup_fails(attempt)
        if node in self._silent_nodes or law.place_is_taken(attempt):
            self._workers[worker].is_silent = node in self._silent_nodes
            return
        if self._tells_places:
            self._immediate.append(WorkerPlaced(worker))
        if law.setup_hangs(attempt):
            return

        def ready() -> list[Event]:
            if worker not in self._workers or self._workers[worker].is_silent:
                return []
            return self._lose(worker, "setup failed") if fails else [WorkerReady(worker)]

        self.at(self._time + law.start_up, ready)

    def _stop(self, worker_id: str) -> None:
        """Let a worker tear down, unless it is silent."""
        worker = self._workers.get(worker_id)
        if worker is not None and not worker.is_silent:
            self.at(self._time + self._laws[worker.pool].stop, lambda: self._gone(worker_id))

    def _gone(self, worker_id: str) -> list[Event]:
        worker = self._workers.pop(worker_id, None)
        if worker is None or self._happens(self._laws[worker.pool].lost_end_probability):
            return []
        return [WorkerGone(worker_id)]

    def _ask(self, worker_id: str) -> None:
        worker = self._workers.get(worker_id)
        if worker is not None and not worker.is_silent:
            self._immediate.append(WorkerAnswered(worker_id, worker.batches[0].batch if worker.batches else None))

    def _hears(self, worker_id: str) -> bool:
        worker = self._workers[worker_id]
        return not (worker.is_silent or worker.has_lost_report)

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._chance.random() < probability

    def _lose(self, worker_id: str, reason: str) -> list[Event]:
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return []
        self._count_lost(worker)
        rows = sum(self._items[key].rows for key in worker.batches[0].items) if worker.batches else 0
        return [WorkerLost(worker_id, reason, 0 if rows else None, rows)]

    def _kill(self, worker_id: str) -> None:
        worker = self._workers.get(worker_id)
        if worker is None:
            return
        self._count_lost(worker)
        if self._laws[worker.pool].late_results and worker.batches and not self._is_poisonous(worker.batches[0]):
            batch, is_last = worker.batches[0], worker.pool + 1 == len(self._laws)
            pending = worker.pending or deque(self._outputs(self._laws[worker.pool], batch))
            late = []
            while pending and (is_last or pending[0].size <= worker.credit):  # what it could store without asking
                output = pending.popleft()
                late.append(output)
                if is_last:
                    self.trace.add_result(output.id, self._time)
                else:
                    worker.credit -= output.size
                    self._put(worker.pool + 1, output, worker.node)
            if late:
                self._immediate.append(Emitted(worker_id, batch.batch, tuple(late)))
            if not pending:
                self._immediate.append(BatchDone(worker_id, batch.batch, 1.0))
        self._immediate += self._gone(worker_id)

    def _lacks_inputs(self, action: RunBatch) -> bool:
        """Tell whether inputs of a batch are lost, and report it; restore inputs that the driver stored."""
        missing = [key for key in action.items if key not in self._items]
        for key in missing:
            if (stored := self._consumed.get(key)) is not None and stored.node is None:
                self._items[key] = stored
        gone = tuple(key for key in missing if key not in self._items)
        if gone:
            self._immediate.append(InputsLost(action.worker, action.batch, gone))
        return bool(gone)

    def _count_lost(self, worker: SimulatedWorker) -> None:
        if worker.batches:
            self.trace.lost_seconds += min(self._time - worker.began_at, worker.service)

    # -- batches -------------------------------------------------------------------------------------------

    def _begin(self, worker: SimulatedWorker) -> None:
        law, batch = self._laws[worker.pool], worker.batches[0]
        chosen = self._chosen(batch)
        worker.credit = batch.credit
        worker.began_at = self._time
        worker.service = sum(law.service(self._items[key].order, self._time, self._chance) for key in chosen)
        fatal = self._is_poisonous(batch)
        fatal = fatal or self._happens(law.death_probability)
        worker.is_silent = worker.is_silent or self._happens(law.silence_probability)
        if self._happens(law.hang_probability):
            return
        if fatal:
            worker.service *= self._chance.random()

        def end() -> list[Event]:
            if self._workers.get(worker.id) is not worker or not worker.batches or worker.batches[0] is not batch:
                return []
            self.trace.add_busy(worker.pool, worker.service)
            if worker.is_silent:
                return []
            if fatal:
                return self._lose(worker.id, "died")
            if any(law.refuses(self._items[key].order) for key in chosen):
                worker.batches.popleft()
                return [BatchFailed(worker.id, batch.batch, "refused"), *self._start_next_batch(worker)]
            worker.pending = deque(self._outputs(law, batch))
            return self._store(worker)

        self.at(self._time + worker.service, end)

    def _is_poisonous(self, batch: RunBatch) -> bool:
        """Tell whether a batch contains a row that kills its worker."""
        poison = self._laws[int(batch.items[0].partition("/")[0])].poison
        return any(set(poison(self._items[key].order)) & rows for key, rows in self._chosen(batch).items())

    def _chosen(self, batch: RunBatch) -> dict[str, set[int]]:
        """Return the selected items of a batch, with the numbers of their selected rows."""
        chosen = {}
        position = 0
        for key in batch.items:
            count = self._items[key].rows
            rows = {row for row in range(count) if all(_selects(s, position + row) for s in batch.selections)}
            position += count
            if rows:
                chosen[key] = rows
        return chosen

    def _outputs(self, law: Law, batch: RunBatch) -> list[Output]:
        if batch.probe:
            return []
        outputs = []
        for key in self._chosen(batch):
            order = self._items[key].order
            item_id = key.split("/", 1)[1]
            count = law.fan_out(order)
            for index in range(count):
                child = order if count == 1 else (*order, index)
                name = item_id if count == 1 else f"{item_id}_{index}"
                if name not in batch.already:
                    outputs.append(Output(name, child, law.output_bytes(child), law.rows))
        return outputs

    def _store(self, worker: SimulatedWorker, *, spill: bool = False) -> list[Event]:
        """Store outputs as far as credit allows; then request more credit, or end the batch."""
        batch = worker.batches[0]
        last = worker.pool + 1 == len(self._laws)
        stored: list[Output] = []
        events: list[Event] = []
        while worker.pending and (last or spill or worker.pending[0].size <= worker.credit):
            output = worker.pending.popleft()
            if spill:
                output, spill = output._replace(size=0), False  # only the output that credit was requested for
            if last:
                self.trace.add_result(output.id, self._time)
            else:
                worker.credit -= output.size
                self._put(worker.pool + 1, output, worker.node)
            stored.append(output)
        if stored:
            events.append(Emitted(worker.id, batch.batch, tuple(stored)))
        if worker.pending:
            events.append(CreditWanted(worker.id, batch.batch, worker.pending[0].size - worker.credit))
            return events
        worker.batches.popleft()
        self.trace.lost_seconds += worker.service if batch.probe else 0.0
        if self._happens(self._laws[worker.pool].lost_report_probability):
            worker.has_lost_report = True
            worker.batches.clear()
            return events
        events.append(BatchDone(worker.id, batch.batch, worker.service))
        return events + self._start_next_batch(worker)

    def _start_next_batch(self, worker: SimulatedWorker) -> list[Event]:
        if worker.batches:
            self._begin(worker)
        return []

    # -- storage -------------------------------------------------------------------------------------------

    def _put(self, pool: int, output: Output, node: str) -> None:
        key = item_key(pool, output.id)
        self._drop(key)
        self._items[key] = SimulatedItem(output.order, output.rows, output.size, node)
        self._bytes += self._items[key].size
        self.trace.peak_bytes = max(self.trace.peak_bytes, self._bytes)

    def _drop(self, key: str) -> None:
        stored = self._items.pop(key, None)
        if stored is not None:
            self._bytes -= stored.size
            self._consumed[key] = stored


def _selects(selection: Selection, row: int) -> bool:
    stop = inf if selection.stop is None else selection.stop
    return selection.start <= row < stop and row not in selection.without
