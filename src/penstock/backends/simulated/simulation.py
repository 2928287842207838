"""A backend in virtual time: workers are entries in a calendar of events."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.backends.backend import drive
from penstock.backends.simulated.law import Law
from penstock.core.cluster import Cluster
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
    CreditWanted,
    Emitted,
    Event,
    NodeLost,
    Output,
    WorkerGone,
    WorkerLost,
    WorkerReady,
)
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings, item_key

Order = tuple[int, ...]


@dataclass
class SimulatedWorker:
    """One worker: what it was given, and what it has still to store."""

    id: str
    pool: int
    node: str
    batches: deque[RunBatch] = field(default_factory=deque)
    pending: deque[Output] = field(default_factory=deque)
    credit: int = 0
    busy_since: float = 0.0
    service: float = 0.0


@dataclass
class Trace:
    """What a simulation saw, for a test or a report to look at."""

    finished_at: float = 0.0
    results: list[str] = field(default_factory=list)
    result_times: list[float] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    starts: int = 0
    worker_seconds: float = 0.0
    busy_seconds: dict[int, float] = field(default_factory=dict)
    actions: list[tuple[float, Action]] = field(default_factory=list)


class Simulation:
    """Carries out actions by writing what will happen into a calendar."""

    def __init__(self, laws: Sequence[Law], seed: int = 0, *, record_actions: bool = False) -> None:
        self.trace = Trace()
        self._laws = laws
        self._chance = random.Random(seed)
        self._time = 0.0
        self._count = itertools.count()
        self._calendar: list[tuple[float, int, Callable[[], list[Event]]]] = []
        self._workers: dict[str, SimulatedWorker] = {}
        self._items: dict[str, tuple[Order, int]] = {}
        self._immediate: list[Event] = []
        self._record = record_actions
        self._setups = [0] * len(laws)

    # -- the backend protocol ------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the virtual time."""
        return self._time

    def carry_out(self, action: Action) -> None:
        """Enter what the action leads to into the calendar."""
        if self._record:
            self.trace.actions.append((self._time, action))
        match action:
            case StartWorker(worker, pool, placement):
                self._start(worker, pool, placement.node)
            case StopWorker(worker):
                pool = self._workers[worker].pool
                self.at(self._time + self._laws[pool].stop, lambda: self._gone(worker))
            case KillWorker(worker):
                self.at(self._time, lambda: self._gone(worker))
            case RunBatch(worker):
                if worker in self._workers:
                    self._workers[worker].batches.append(action)
                    if len(self._workers[worker].batches) == 1:
                        self._begin(self._workers[worker])
            case GrantCredit(worker, _, size):
                if worker in self._workers:
                    self._workers[worker].credit += size
                    self._immediate += self._store(self._workers[worker])
            case DropItem(item):
                self._items.pop(item, None)
            case DeadLetter():
                self.trace.dead.append(action)

    def wait(self, until: float) -> list[Event]:
        """Move the clock to the next thing that happens."""
        if self._immediate:
            events, self._immediate = self._immediate, []
            return events
        if not self._calendar and until == float("inf"):
            raise RuntimeError("nothing will ever happen again, and the run is not finished")
        if not self._calendar or self._calendar[0][0] > until:
            self._time = max(self._time, until)
            return []
        self._time, _, happen = heapq.heappop(self._calendar)
        return happen()

    # -- what tests do to it -------------------------------------------------------------------------------

    def at(self, time: float, happen: Callable[[], list[Event]]) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._calendar, (time, next(self._count), happen))

    def kill_worker(self, chance: random.Random) -> list[Event]:
        """Kill a worker at random, as if the system had."""
        alive = sorted(self._workers)
        return self._lose(chance.choice(alive), "killed") if alive else []

    def lose_node(self, name: str) -> list[Event]:
        """Take a node away with all its workers."""
        for worker in [w for w in self._workers.values() if w.node == name]:
            del self._workers[worker.id]
        return [NodeLost(name)]

    def add_items(self, outputs: Sequence[Output]) -> None:
        """Note the items a run begins with."""
        for output in outputs:
            self._items[item_key(0, output.id)] = (output.order, output.rows)

    # -- workers -------------------------------------------------------------------------------------------

    def _start(self, worker: str, pool: int, node: str) -> None:
        law = self._laws[pool]
        self.trace.starts += 1
        self._workers[worker] = SimulatedWorker(worker, pool, node)
        self._setups[pool] += 1
        fails = law.setup_fails(self._setups[pool])

        def ready() -> list[Event]:
            if worker not in self._workers:
                return []
            return self._lose(worker, "setup failed") if fails else [WorkerReady(worker)]

        self.at(self._time + law.start_up, ready)

    def _gone(self, worker: str) -> list[Event]:
        return [WorkerGone(worker)] if self._workers.pop(worker, None) is not None else []

    def _lose(self, worker_id: str, reason: str) -> list[Event]:
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return []
        rows = sum(self._items[key][1] for key in worker.batches[0].items) if worker.batches else 0
        return [WorkerLost(worker_id, reason, 0 if rows else None, rows)]

    def _begin(self, worker: SimulatedWorker) -> None:
        law, batch = self._laws[worker.pool], worker.batches[0]
        orders = [self._items[key][0] for key in batch.items]
        worker.credit = batch.credit
        worker.busy_since = self._time
        worker.service = sum(law.service(order, self._time, self._chance) for order in orders)
        fatal = self._hits_poison(law, batch) or self._chance.random() < law.death_probability
        if fatal:
            worker.service *= self._chance.random()

        def end() -> list[Event]:
            if self._workers.get(worker.id) is not worker or not worker.batches or worker.batches[0] is not batch:
                return []
            busy = self.trace.busy_seconds
            busy[worker.pool] = busy.get(worker.pool, 0.0) + worker.service
            if fatal:
                return self._lose(worker.id, "died")
            worker.pending = deque(self._outputs(law, batch))
            return self._store(worker)

        self.at(self._time + worker.service, end)

    def _hits_poison(self, law: Law, batch: RunBatch) -> bool:
        position = 0
        for key in batch.items:
            order, rows = self._items[key]
            bad = {position + row for row in law.poison(order)}
            position += rows
            for selection in batch.selections:
                stop = position if selection.stop is None else selection.stop
                bad = {row for row in bad if selection.start <= row < stop and row not in selection.without}
            if bad:
                return True
        return False

    def _outputs(self, law: Law, batch: RunBatch) -> list[Output]:
        if batch.probe:
            return []
        outputs = []
        for key in batch.items:
            order, _ = self._items[key]
            item_id = key.split("/", 1)[1]
            count = law.fan_out(order)
            for index in range(count):
                child = order if count == 1 else (*order, index)
                name = item_id if count == 1 else f"{item_id}_{index}"
                if name not in batch.already:
                    outputs.append(Output(name, child, law.output_bytes(child), law.rows))
        return outputs

    def _store(self, worker: SimulatedWorker) -> list[Event]:
        """Store what credit allows; ask for more where it does not, or end the batch."""
        batch = worker.batches[0]
        last = worker.pool + 1 == len(self._laws)
        stored: list[Output] = []
        events: list[Event] = []
        while worker.pending and (last or worker.pending[0].size <= worker.credit):
            output = worker.pending.popleft()
            worker.credit -= 0 if last else output.size
            stored.append(output)
            if last:
                self.trace.results.append(output.id)
                self.trace.result_times.append(self._time)
            else:
                self._items[item_key(worker.pool + 1, output.id)] = (output.order, output.rows)
        if stored:
            events.append(Emitted(worker.id, batch.batch, tuple(stored)))
        if worker.pending:
            events.append(CreditWanted(worker.id, batch.batch, worker.pending[0].size - worker.credit))
            return events
        worker.batches.popleft()
        events.append(BatchDone(worker.id, batch.batch, worker.service))
        if worker.batches:
            self._begin(worker)
        return events


def simulate(
    pools: Sequence[PoolSpec],
    laws: Sequence[Law],
    cluster: Cluster,
    items: int,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    rows: int = 1,
    before: Callable[[Simulation], None] | None = None,
    record_actions: bool = False,
) -> tuple[Trace, Scheduler]:
    """Run a number of source items through simulated pools, and return what was seen."""
    settings = settings or Settings(memory_budget=2**40)
    scheduler = Scheduler(pools, cluster, settings)
    simulation = Simulation(laws, seed, record_actions=record_actions)
    sources = [Output(f"0_{i}", (0, i), 0, rows) for i in range(items)]
    simulation.add_items(sources)
    if before is not None:
        before(simulation)
    drive(scheduler, simulation, scheduler.begin(0.0, sources))
    simulation.trace.finished_at = simulation.now()
    return simulation.trace, scheduler
