"""The scheduler: events in, actions out.

Everything that affects the state of a run comes through ``handle``; this file does not know which backend is on the
other side. After the events are noted, four things are done in order: grant credit to workers that wait for it, give
work to workers that are free, plan again if there is a reason, and let one thing through if nothing moves.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import ceil

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
from penstock.schedule.credit import Charge, Credits
from penstock.schedule.events import (
    BatchDone,
    BatchFailed,
    CreditWanted,
    Emitted,
    Event,
    NodeAdded,
    NodeLost,
    Output,
    StopAsked,
    Tick,
    WorkerGone,
    WorkerLost,
    WorkerReady,
)
from penstock.schedule.frontier import Frontier
from penstock.schedule.pack import Nodes, packing_order
from penstock.schedule.recovery import Recovery
from penstock.schedule.staffing import PlanRecord, Staffing
from penstock.schedule.state import Batch, Item, Pool, PoolSpec, Settings, Status, Worker, item_key

_HEADROOM = 1.1
_MAX_AHEAD = 8
_QUEUE_SECONDS = 5.0
_MAX_RECOVERY_ROUNDS = 3


class Scheduler:
    """One run's state, and the only way to change it."""

    def __init__(self, pools: Sequence[PoolSpec], cluster: Cluster, settings: Settings) -> None:
        self.settings = settings
        self.pools = [Pool(i, spec, ordered=spec.batch_size > 1) for i, spec in enumerate(pools)]
        self.nodes = Nodes(cluster)
        self.credits = Credits(settings.memory_budget, [spec.batch_size for spec in pools[1:]])
        self.staffing = Staffing(self.pools, cluster, settings)
        self.workers: dict[str, Worker] = {}
        self.items: dict[str, Item] = {}
        self.results = 0
        self.dead = 0
        self.abandoned = 0
        self.stopping = False
        # Set when the run cannot go on at all, such as a stage whose setup fails every time.
        self.fatal: str | None = None
        self._frontiers = {pool.index: Frontier() for pool in self.pools if pool.ordered}
        self._recoveries: dict[int, Recovery] = {}
        self._rounds: dict[int, int] = {}
        self._wants: list[dict[str, tuple[Batch, int]]] = [{} for _ in self.pools]
        self._replaced_by: dict[str, str] = {}
        self._batch_count = 0
        self._worker_count = 0
        self._actions: list[Action] = []
        self._now = 0.0
        self._has_timeouts = any(spec.timeout_s is not None for spec in pools)
        self._hardest_first = sorted(self.pools, key=lambda pool: (packing_order(pool.spec.need), -pool.index))

    # -- the only entries ----------------------------------------------------------------------------------

    def begin(self, now: float, outputs: Sequence[Output]) -> list[Action]:
        """Put the first items into the queue of the first pool."""
        self._now = now
        for output in outputs:
            self._enqueue(Item(output.id, output.order, 0, output.size, output.rows))
        self.staffing.ask(now, "start")
        return self._settle()

    def handle(self, now: float, *events: Event) -> list[Action]:
        """Note what has happened, and say what to do."""
        self._now = max(now, self._now)
        for event in events:
            self._note(event)
        return self._settle()

    @property
    def finished(self) -> bool:
        """Whether nothing is on its way and no worker is left."""
        return (not self.items or self.fatal is not None) and not self.workers

    @property
    def plans(self) -> list[PlanRecord]:
        """Every plan that was made, with its reason."""
        return self.staffing.records

    def wake_at(self) -> float:
        """Return when to call again if nothing happens before: for a plan that is due, or a task that may hang."""
        if not self._has_timeouts:
            return self.staffing.due_at
        deadlines = [
            worker.running_since + timeout
            for worker in self.workers.values()
            if worker.batches and (timeout := self.pools[worker.pool].spec.timeout_s) is not None
        ]
        return min([self.staffing.due_at, *deadlines])

    # -- noting what has happened --------------------------------------------------------------------------

    def _note(self, event: Event) -> None:
        match event:
            case WorkerReady(worker_id):
                self._worker_ready(worker_id)
            case WorkerGone(worker_id):
                self._remove_worker(worker_id)
            case WorkerLost(worker_id, reason, step, rows):
                self._worker_lost(worker_id, reason, step, rows)
            case CreditWanted(worker_id, batch_id, size):
                if (batch := self._running_batch(worker_id, batch_id)) is not None:
                    self.workers[worker_id].waits_for_credit = True
                    self._wants[batch.pool][worker_id] = (batch, size)
            case Emitted(worker_id, batch_id, outputs):
                self._emitted(worker_id, batch_id, outputs)
            case BatchDone(worker_id, batch_id, seconds, resident):
                self._batch_done(worker_id, batch_id, seconds, resident)
            case BatchFailed(worker_id, batch_id, error):
                self._batch_failed(worker_id, batch_id, error)
            case NodeAdded(node):
                self.nodes.add(node)
                self.staffing.add_node(node)
                self.staffing.ask(self._now, f"node '{node.name}' joined")
            case NodeLost(name):
                self._node_lost(name)
            case StopAsked():
                self._stop_sources()
            case Tick():
                self._check_clocks()

    def _worker_ready(self, worker_id: str) -> None:
        worker = self.workers.get(worker_id)
        if worker is None:
            return
        pool = self.pools[worker.pool]
        pool.estimate.started(self._now - worker.started_at)
        pool.setup_failures = 0
        worker.ready_at = self._now
        if worker.status is Status.STARTING:
            worker.status = Status.READY
            pool.idle[worker_id] = None
        elif worker.status is Status.DRAINING:
            self._stop(worker)
        old = self._replaced_by.pop(worker_id, None)
        if old is not None and old in self.workers:
            self._drain(self.workers[old])

    def _remove_worker(self, worker_id: str) -> Worker | None:
        worker = self.workers.pop(worker_id, None)
        if worker is None:
            return None
        pool = self.pools[worker.pool]
        if worker.status in (Status.READY, Status.STARTING):
            pool.staffed -= 1
        del pool.workers[worker_id]
        pool.idle.pop(worker_id, None)
        self._wants[worker.pool].pop(worker_id, None)
        self.nodes.release(pool.spec.need, worker.placement)
        self._replaced_by.pop(worker_id, None)
        if worker.batches:
            self._clock_out(pool, worker)
        return worker

    def _worker_lost(self, worker_id: str, reason: str, step: int | None, rows: int) -> None:
        worker = self._remove_worker(worker_id)
        if worker is None:
            return
        pool = self.pools[worker.pool]
        if worker.status is Status.STARTING:
            pool.setup_failures += 1
            if pool.setup_failures >= self.settings.max_attempts:
                self.fatal = f"workers of pool '{pool.spec.name}' cannot be set up: {reason}"
        running = worker.batches.popleft() if worker.batches else None
        for batch in reversed(worker.batches):  # only waiting in front of it: nobody's fault
            self._take_back(batch)
            pool.retries.appendleft(batch)
        if running is not None:
            self._attempt_failed(running, reason, step, rows)
        if not self.stopping or self.items:
            self.staffing.ask(self._now, f"a worker of '{pool.spec.name}' was lost")

    def _emitted(self, worker_id: str, batch_id: int, outputs: Sequence[Output]) -> None:
        batch = self._running_batch(worker_id, batch_id)
        if batch is None:
            # A late result of an attempt that was given up: somebody else does that work.
            worker = self.workers.get(worker_id)
            pool_index = worker.pool + 1 if worker else len(self.pools)
            self._actions += [DropItem(item_key(pool_index, output.id)) for output in outputs]
            return
        pool = self.pools[batch.pool]
        last = batch.pool + 1 == len(self.pools)
        for output in outputs:
            if output.id in batch.emitted:
                continue
            batch.emitted.add(output.id)
            batch.outputs += 1
            pool.estimate.outputs.observe(output.size)
            if last:
                self.results += 1
                continue
            charge = self._charge_output(batch, output.size)
            for index, frontier in self._frontiers.items():
                if batch.pool < index:
                    for item in batch.items:
                        frontier.advance(item, output.order)
            self._enqueue(Item(output.id, output.order, batch.pool + 1, output.size, output.rows, charge))

    def _batch_done(self, worker_id: str, batch_id: int, seconds: float, resident: int) -> None:
        batch = self._running_batch(worker_id, batch_id)
        if batch is None:
            return
        worker, pool = self.workers[worker_id], self.pools[batch.pool]
        self._next_in_line(pool, worker)
        self._take_back(batch)
        worker.tasks_done += 1
        worker.first_resident_bytes = worker.first_resident_bytes or resident
        worker.resident_bytes = resident
        if batch.probe:
            self._recoveries[batch.id].passed()
            self._probe_on(batch)
        else:
            first = pool.estimate.rate.tasks == 0
            shifted = pool.estimate.finished(self._now, len(batch.items), batch.outputs, seconds)
            if first or shifted:
                self.staffing.ask(self._now, f"'{pool.spec.name}' {'has shifted' if shifted else 'was measured'}")
            self._close(batch)
        self._recycle_if_due(worker)

    def _batch_failed(self, worker_id: str, batch_id: int, error: str) -> None:
        batch = self._running_batch(worker_id, batch_id)
        if batch is None:
            return
        self._next_in_line(self.pools[batch.pool], self.workers[worker_id])
        self._take_back(batch)
        if batch.probe:
            self._recoveries[batch.id].failed(error)
            self._probe_on(batch)
        else:
            self._condemn(batch, error)

    def _node_lost(self, name: str) -> None:
        self.nodes.remove(name)
        self.staffing.remove_node(name)
        for worker in [worker for worker in self.workers.values() if worker.placement.node == name]:
            self._worker_lost(worker.id, f"node '{name}' is gone", None, 0)
        self.staffing.ask(self._now, f"node '{name}' was lost")

    def _stop_sources(self) -> None:
        """Forget what has not been begun: the items of the first pool, and what it gave that nobody has taken."""
        self.stopping = True
        for pool in self.pools[:2]:
            fresh = [key for order, key in pool.waiting if len(order) <= 2]
            pool.waiting = [entry for entry in pool.waiting if len(entry[0]) > 2]
            pool.waiting.sort()
            for key in fresh:
                self.abandoned += 1
                self._consume(self.items[key])

    def _check_clocks(self) -> None:
        """Kill what hangs, and replace what is too old."""
        for worker in list(self.workers.values()):
            timeout = self.pools[worker.pool].spec.timeout_s
            hangs = timeout is not None and worker.batches and self._now - worker.running_since >= timeout
            if hangs and worker.status is not Status.STOPPING and not worker.waits_for_credit:
                reason = f"took longer than task_timeout_s={timeout:g}"
                self._actions.append(KillWorker(worker.id, reason))
                running = worker.batches.popleft()
                self._clock_out(self.pools[worker.pool], worker)
                waiting = list(worker.batches)
                worker.batches.clear()
                self._leaves_staff(worker, Status.STOPPING)
                for batch in reversed(waiting):
                    self._take_back(batch)
                    self.pools[worker.pool].retries.appendleft(batch)
                self._attempt_failed(running, reason, None, 0)
            elif worker.status is Status.READY:
                self._recycle_if_due(worker)

    # -- items, batches and their credit -------------------------------------------------------------------

    def _enqueue(self, item: Item) -> None:
        self.items[item.key] = item
        pool = self.pools[item.pool]
        pool.items += 1
        pool.push(item)
        for index, frontier in self._frontiers.items():
            if item.pool < index:
                frontier.enter(item)

    def _consume(self, item: Item) -> None:
        pool = self.pools[item.pool]
        pool.items -= 1
        pool.done += 1
        for index, frontier in self._frontiers.items():
            if item.pool < index:
                frontier.leave(item)
        if item.charge is not None:
            self.credits.release(item.charge)
        del self.items[item.key]
        self._actions.append(DropItem(item.key))
        if pool.items == 0 and self._upstream_complete(pool.index):
            self.staffing.ask(self._now, f"'{pool.spec.name}' has nothing left to do")

    def _close(self, batch: Batch) -> None:
        """Count a batch as done: its items are consumed."""
        for item in batch.items:
            self._consume(item)
        self._recoveries.pop(batch.id, None)
        self._rounds.pop(batch.id, None)

    def _charge_output(self, batch: Batch, size: int) -> Charge:
        """Take the charge of one output out of what its batch was granted."""
        self.credits.learn(batch.pool, size)
        have = batch.charge or Charge(batch.pool)
        if have.total < size:  # a backend stored more than it was granted: counted, never hidden
            have = have.plus(self.credits.force(batch.pool, size - have.total))
        charge, batch.charge = have.split(size)
        return charge

    def _take_back(self, batch: Batch) -> None:
        """Release what a batch was granted and has not used."""
        if batch.charge is not None:
            self.credits.release(batch.charge)
            batch.charge = None

    def _running_batch(self, worker_id: str, batch_id: int) -> Batch | None:
        worker = self.workers.get(worker_id)
        if worker is None or not worker.batches or worker.batches[0].id != batch_id:
            return None
        return worker.batches[0]

    def _next_in_line(self, pool: Pool, worker: Worker) -> None:
        """Take the batch a worker has ended off its list, and see what it does now."""
        worker.batches.popleft()
        worker.waits_for_credit = False
        self._wants[pool.index].pop(worker.id, None)
        self._clock_out(pool, worker)
        if worker.batches:
            self._clock_in(pool, worker)
        elif worker.status is Status.READY:
            pool.idle[worker.id] = None
        elif worker.status is Status.DRAINING:
            self._stop(worker)

    def _clock_in(self, pool: Pool, worker: Worker) -> None:
        worker.running_since = self._now
        pool.running += 1
        pool.running_since += self._now

    def _clock_out(self, pool: Pool, worker: Worker) -> None:
        pool.running -= 1
        pool.running_since -= worker.running_since

    # -- what failed ---------------------------------------------------------------------------------------

    def _attempt_failed(self, batch: Batch, reason: str, step: int | None, rows: int) -> None:
        """Try a batch again; after enough attempts, look for the rows that cannot be processed."""
        self._take_back(batch)
        pool = self.pools[batch.pool]
        if batch.probe:
            self._recoveries[batch.id].failed(reason)
            self._probe_on(batch)
            return
        batch.attempts += 1
        if batch.attempts < self.settings.max_attempts:
            pool.retries.append(batch)
            return
        rows = rows or sum(item.rows for item in batch.items)
        rounds = self._rounds.get(batch.id, 0) + 1
        self._rounds[batch.id] = rounds
        if rows <= 1 or rounds > _MAX_RECOVERY_ROUNDS:
            self._condemn(batch, reason)
            return
        before = batch.selections
        self._recoveries[batch.id] = Recovery(step or 0, rows, self.settings.max_attempts, before, error=reason)
        self._probe_on(batch)

    def _probe_on(self, batch: Batch) -> None:
        """Go on with the search inside a batch, or end it and do the work without what was found."""
        recovery = self._recoveries[batch.id]
        probe = recovery.next_probe()
        if probe is not None:
            batch.probe = True
            batch.selections = (*recovery.before, probe)
        else:
            batch.probe = False
            batch.attempts = 0
            batch.selections = recovery.verdict()
            if recovery.bad:
                keys = tuple(item.key for item in batch.items)
                rows = tuple(sorted(recovery.bad))
                self.dead += len(rows)
                self._actions.append(DeadLetter(keys, batch.pool, recovery.error, recovery.step, rows))
        self.pools[batch.pool].retries.append(batch)

    def _condemn(self, batch: Batch, error: str) -> None:
        """Give a whole batch up."""
        keys = tuple(item.key for item in batch.items)
        self.dead += sum(item.rows for item in batch.items)
        self._actions.append(DeadLetter(keys, batch.pool, error))
        self._close(batch)

    # -- deciding ------------------------------------------------------------------------------------------

    def _settle(self) -> list[Action]:
        self._grant_credit()
        self._dispatch()
        if not self.items or self.fatal is not None:
            for worker in list(self.workers.values()):
                self._drain(worker)
        else:
            self._staff()
            self._unstick()
        actions, self._actions = self._actions, []
        return actions

    def _grant_credit(self) -> None:
        """Let waiting workers store what they ask for, the deepest pool first: it is the one that frees bytes."""
        for wants in reversed(self._wants):
            for worker_id, (batch, size) in sorted(wants.items(), key=lambda entry: (entry[1][0].order, entry[0])):
                if batch.pool + 1 == len(self.pools):
                    charge: Charge | None = Charge(batch.pool)  # results leave the run: nothing to bound
                else:
                    charge = self.credits.acquire(batch.pool, size, shared_only=not self._is_awaited(batch))
                if charge is None:
                    continue
                self._grant(worker_id, batch, size, charge)

    def _grant(self, worker_id: str, batch: Batch, size: int, charge: Charge) -> None:
        del self._wants[batch.pool][worker_id]
        self.workers[worker_id].waits_for_credit = False
        if batch.pool + 1 < len(self.pools):
            batch.charge = charge if batch.charge is None else batch.charge.plus(charge)
        self._actions.append(GrantCredit(worker_id, batch.id, size))

    def _dispatch(self) -> None:
        """Give work to free workers, the deepest pool first, and a little ahead where messages take long."""
        for pool in reversed(self.pools):
            while pool.idle and (batch := self._next_batch(pool)) is not None:
                self._give(pool, pool.workers[next(iter(pool.idle))], batch)
            ahead = self._batches_ahead(pool)
            if ahead and not pool.idle and pool.waiting:
                for worker in pool.workers.values():
                    while worker.status is Status.READY and len(worker.batches) <= ahead:
                        batch = self._next_batch(pool)
                        if batch is None:
                            break
                        self._give(pool, worker, batch)

    def _batches_ahead(self, pool: Pool) -> int:
        """Return how many batches a worker holds beside the one it runs: to cover a message's way; none at the end."""
        service = pool.estimate.rate.service_seconds
        if service <= 0 or len(pool.waiting) <= len(pool.workers) * pool.spec.batch_size * 2:
            return 0
        return min(_MAX_AHEAD, ceil(self.settings.round_trip_s / service)) if service < 0.1 else 0

    def _next_batch(self, pool: Pool, *, force: bool = False) -> Batch | None:
        if pool.retries:
            batch = pool.retries.popleft()
            self._reserve(pool, batch, len(batch.items))
            return batch
        count = self._batch_length(pool)
        if count == 0 or not (force or self._has_credit(pool, count)):
            return None
        items = tuple(self.items[pool.pop()] for _ in range(count))
        self._batch_count += 1
        batch = Batch(self._batch_count, pool.index, items)
        self._reserve(pool, batch, count)
        return batch

    def _batch_length(self, pool: Pool) -> int:
        """Return how many items the next batch may have: a full one, or the rest when no more can come."""
        if not pool.waiting or (
            (pool.spec.barrier or self.settings.batch_mode) and not self._upstream_complete(pool.index)
        ):
            return 0
        size = pool.spec.batch_size
        if size == 1:
            return 1
        if self._upstream_complete(pool.index):
            return min(size, len(pool.waiting))
        if len(pool.waiting) < size:
            return 0
        last = max(entry[0] for entry in heapq.nsmallest(size, pool.waiting))
        return size if self._frontiers[pool.index].passed(last) else 0

    def _is_sated(self, pool: Pool) -> bool:
        """Tell whether a pool has enough in its queue to be busy for a while: more would only take memory from others.

        A pool that nobody works for (it waits for its turn, or for everything upstream to end) is never sated.
        """
        if not pool.staffed or pool.spec.barrier or self.settings.batch_mode:
            return False
        rate = pool.estimate.rate.rate() or 0.0
        return len(pool.waiting) > pool.staffed * (2 * pool.spec.batch_size + rate * _QUEUE_SECONDS)

    def _has_credit(self, pool: Pool, count: int) -> bool:
        """Tell whether there is room for at least one output of what would be begun."""
        if pool.index + 1 == len(self.pools):
            return True
        if self._is_sated(self.pools[pool.index + 1]):
            return False
        expected = pool.estimate.output_bytes_per_item * count
        return self.credits.available(pool.index) >= min(expected, pool.estimate.outputs.largest)

    def _is_awaited(self, batch: Batch) -> bool:
        """Tell whether a pool that takes things in order waits for this batch, or none behind it does so.

        Only then may it use the private credit: bytes out of turn would lie there and keep away what is awaited.
        """
        frontier = self._frontiers.get(batch.pool + 1)
        return frontier is None or frontier.waits_for(batch.items)

    def _reserve(self, pool: Pool, batch: Batch, count: int) -> None:
        if pool.index + 1 < len(self.pools) and not batch.probe:
            expected = ceil(pool.estimate.output_bytes_per_item * count * _HEADROOM)
            batch.charge = self.credits.reserve(pool.index, expected, shared_only=not self._is_awaited(batch))

    def _give(self, pool: Pool, worker: Worker, batch: Batch) -> None:
        pool.idle.pop(worker.id, None)
        worker.batches.append(batch)
        if len(worker.batches) == 1:
            self._clock_in(pool, worker)
        credit = batch.charge.total if batch.charge is not None else 0
        keys = tuple(item.key for item in batch.items)
        already = frozenset(batch.emitted)
        self._actions.append(RunBatch(worker.id, batch.id, keys, credit, already, batch.selections, batch.probe))

    def _unstick(self) -> None:
        """If nothing moves and nothing is about to, let one thing through beyond the budget."""
        if any(worker.status in (Status.STARTING, Status.STOPPING) or (worker.batches and not worker.waits_for_credit)
               for worker in self.workers.values()):  # fmt: skip
            return
        for wants in reversed(self._wants):
            if wants:
                worker_id, (batch, size) = min(wants.items(), key=lambda entry: (entry[1][0].order, entry[0]))
                self._grant(worker_id, batch, size, self.credits.force(batch.pool, size))
                return
        for pool in reversed(self.pools):
            if pool.idle and (batch := self._next_batch(pool, force=True)) is not None:  # type: ignore[assignment]
                self._give(pool, pool.workers[next(iter(pool.idle))], batch)
                return

    def _upstream_complete(self, index: int) -> bool:
        return not any(pool.items for pool in self.pools[:index])

    # -- workers -------------------------------------------------------------------------------------------

    def _staff(self) -> None:
        """Plan if there is a reason to, then start and stop workers as the plan says."""
        if self.staffing.taking_turns and (next_one := self._whose_turn()) is not None:
            self.staffing.ask(self._now, f"the turn of '{next_one.spec.name}'")
        for worker_id in self.staffing.decide(self._now, self.nodes, self._is_runnable):
            self._drain(self.workers[worker_id])
        for pool in self._hardest_first:
            while pool.staffed < pool.wanted and self._start(pool) is not None:
                pass

    def _whose_turn(self) -> Pool | None:
        """Return a pool that has work and nobody to do it, while somebody with what it needs has nothing to do."""
        for pool in reversed(self.pools):
            if not pool.staffed and not pool.workers and self._is_runnable(pool):
                gpu = pool.spec.need.requires_gpu
                if any(other.idle and other.spec.need.requires_gpu >= gpu for other in self.pools):
                    return pool
        return None

    def _is_runnable(self, pool: Pool) -> bool:
        """Tell whether a worker of this pool would find something to do."""
        return bool(pool.retries) or (self._batch_length(pool) > 0 and self._has_credit(pool, 1))

    def _start(self, pool: Pool) -> Worker | None:
        placement = self.nodes.place(pool.spec.need)
        if placement is None:
            return None
        self._worker_count += 1
        worker = Worker(f"w{self._worker_count}", pool.index, placement, self._now)
        self.workers[worker.id] = pool.workers[worker.id] = worker
        pool.staffed += 1
        self._actions.append(StartWorker(worker.id, pool.index, placement))
        return worker

    def _drain(self, worker: Worker) -> None:
        """Let a worker end when it has done what it was given."""
        self.pools[worker.pool].idle.pop(worker.id, None)
        if worker.status is Status.READY and not worker.batches:
            self._stop(worker)
        elif worker.status in (Status.READY, Status.STARTING):
            self._leaves_staff(worker, Status.DRAINING)

    def _stop(self, worker: Worker) -> None:
        self._leaves_staff(worker, Status.STOPPING)
        self._actions.append(StopWorker(worker.id))

    def _leaves_staff(self, worker: Worker, status: Status) -> None:
        if worker.status in (Status.READY, Status.STARTING):
            self.pools[worker.pool].staffed -= 1
        worker.status = status

    def _recycle_if_due(self, worker: Worker) -> None:
        """Replace a worker that has lived, worked or grown too much: the new one first, if there is room for both."""
        pool, spec = self.pools[worker.pool], self.pools[worker.pool].spec
        if worker.status is not Status.READY or worker.id in self._replaced_by.values():
            return
        too_old = spec.max_lifetime_s is not None and self._now - worker.ready_at >= spec.max_lifetime_s
        too_used = spec.max_tasks_per_worker is not None and worker.tasks_done >= spec.max_tasks_per_worker
        growth = worker.resident_bytes - worker.first_resident_bytes
        too_fat = spec.max_resident_growth is not None and growth >= spec.max_resident_growth
        if not (too_old or too_used or too_fat) or self._now - pool.last_recycled < spec.restart_interval_s:
            return
        pool.last_recycled = self._now
        successor = self._start(pool)
        if successor is not None:
            self._replaced_by[successor.id] = worker.id
        else:
            self._drain(worker)
