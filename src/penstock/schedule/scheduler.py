"""The scheduler: events in, actions out.

Everything that affects the state of a run comes through ``handle``; this file does not know which backend is on the
other side. After the events are noted, these things are done in order: kill what hangs, replace what does not answer,
grant credit to workers that wait for it, give work to workers that are free, plan again if there is a reason, and let
one thing through if nothing moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from penstock.core.cluster import Cluster
from penstock.schedule.actions import Action
from penstock.schedule.clock import next_deadline
from penstock.schedule.credit import Credits
from penstock.schedule.dispatch import dispatch, is_runnable, unstick
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
    Tick,
    WorkerAnswered,
    WorkerGone,
    WorkerLost,
    WorkerPlaced,
    WorkerReady,
)
from penstock.schedule.failures import (
    Death,
    batch_failed,
    inputs_lost,
    kill_overdue,
    node_lost,
    search_on,
    worker_gone,
    worker_lost,
)
from penstock.schedule.frontier import Frontier
from penstock.schedule.granting import grant_credit, note_want
from penstock.schedule.items import (
    abandon_sources,
    close,
    enqueue,
    give_credit_back,
    note_completed_pools,
    running_batch,
    take_outputs,
)
from penstock.schedule.liveness import check_answers, note_activity, note_answer, stalled_at
from penstock.schedule.nodes import Nodes
from penstock.schedule.quarantine import note_success
from penstock.schedule.regeneration import lose_items
from penstock.schedule.staffing import PlanRecord, Staffing
from penstock.schedule.state import Item, PoolSpec, PoolState, RunState, Settings
from penstock.schedule.workforce import (
    drain,
    end_batch,
    note_placed,
    note_ready,
    recycle_if_due,
    shut_down,
    start_missing,
)

# Where pools take turns, who gets one has work for so many times its start-up time.
_TURN_IN_START_UPS = 4.0
_WORK = (Emitted, BatchDone, BatchFailed)


class Scheduler(RunState):
    """One run's state, and the only way to change it."""

    def __init__(self, specs: Sequence[PoolSpec], cluster: Cluster, settings: Settings) -> None:
        pools = [PoolState(i, spec, ordered=spec.batch_size > 1) for i, spec in enumerate(specs)]
        ordered = [pool.index for pool in pools if pool.ordered]
        spills = [spec.barrier or settings.batch_mode for spec in specs[1:]]
        super().__init__(
            settings=settings,
            pools=pools,
            nodes=Nodes(cluster),
            credits=Credits(settings.memory_budget, [spec.batch_size for spec in specs[1:]], spills),
            frontiers={index: Frontier() for index in ordered},
            next_ordered=[next((j for j in ordered if j > pool.index), None) for pool in pools],
        )
        self.staffing = Staffing(pools, cluster, settings, self.credits)

    def begin(self, now: float, outputs: Sequence[Output]) -> list[Action]:
        """Put the first items into the queue of the first pool."""
        self.now = self.moved_at = self.worked_at = self.active_at = now
        self.begins_with_root = any(len(output.order) == 1 for output in outputs)
        self.ask_for_plan("start")
        for output in outputs:
            enqueue(self, Item(output.id, output.order, 0, output.size, output.rows))
        note_completed_pools(self)
        return self._settle()

    def handle(self, now: float, *events: Event) -> list[Action]:
        """Note what has happened, and say what to do."""
        self.now = max(now, self.now)
        for event in events:
            self._note(event)
            if isinstance(event, _WORK):
                self.moved_at = self.worked_at = self.now
            elif isinstance(event, WorkerReady):
                self.moved_at = self.now
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
        """Return when to call again if nothing happens before: for a plan, or for something that is not heard of."""
        due_at = inf if self.shutting_down else self.staffing.due_at
        stalled = stalled_at(self)
        return min(due_at, next_deadline(self), self.next_check, stalled if stalled > self.now else inf)

    def _note(self, event: Event) -> None:
        match event:
            case WorkerPlaced(worker_id):
                note_placed(self, worker_id)
            case WorkerAnswered(worker_id, batch_id):
                note_answer(self, worker_id, batch_id)
            case WorkerReady(worker_id):
                note_ready(self, worker_id)
            case WorkerGone(worker_id):
                worker_gone(self, worker_id)
            case WorkerLost(worker_id, reason, step, rows, from_outside):
                worker_lost(self, worker_id, Death(reason, step, rows, from_outside))
            case CreditWanted(worker_id, batch_id, size):
                note_want(self, worker_id, batch_id, size)
            case Emitted(worker_id, batch_id, outputs):
                take_outputs(self, worker_id, batch_id, outputs)
            case BatchDone(worker_id, batch_id, seconds, resident):
                self._batch_done(worker_id, batch_id, seconds, resident)
            case BatchFailed(worker_id, batch_id, error, stops_run):
                batch_failed(self, worker_id, batch_id, error, stops_run=stops_run)
            case InputsLost(worker_id, batch_id, items):
                inputs_lost(self, worker_id, batch_id, items)
            case ItemsLost(items):
                lose_items(self, items)
            case NodeAdded(node):
                self.nodes.add(node)
                self.staffing.add_node(node)
                self.ask_for_plan(f"node '{node.name}' joined")
            case NodeLost(name):
                self.staffing.remove_node(name)
                node_lost(self, name)
            case StopAsked():
                abandon_sources(self)
            case Tick():
                pass

    def _batch_done(self, worker_id: str, batch_id: int, seconds: float, resident: int) -> None:
        batch = running_batch(self, worker_id, batch_id)
        if batch is None:
            return
        worker, pool = self.workers[worker_id], self.pools[batch.pool]
        worker.tasks_done += 1
        note_success(self, worker)
        pool.survived += 1
        worker.first_resident_bytes = worker.first_resident_bytes or resident
        worker.resident_bytes = resident
        if resident:
            pool.estimate.resident.observe(resident)
        end_batch(self, worker)
        give_credit_back(self, batch)
        if batch.recovery is not None:
            batch.recovery.passed()
            search_on(self, batch)
        else:
            first = pool.estimate.rate.items == 0
            if pool.estimate.finished(self.now, len(batch.items), len(batch.emitted), seconds, pool.running):
                self.ask_for_plan(f"'{pool.spec.name}' has shifted")
            elif first:
                self.ask_for_plan(f"'{pool.spec.name}' was measured")
            close(self, batch)
        recycle_if_due(self, worker)

    def _settle(self) -> list[Action]:
        kill_overdue(self)
        check_answers(self)
        if not self.items or self.fatal is not None:
            shut_down(self)
        if self.fatal is None:
            grant_credit(self)
            dispatch(self)
            self._staff()
        note_activity(self)
        actions, self.actions = self.actions, []
        return actions

    def _staff(self) -> None:
        """Plan if there is a reason to, start and stop workers as the plan says, and see that something moves."""
        if self.shutting_down:
            return
        if self.staffing.taking_turns and (pool := self._whose_turn()) is not None:
            self.ask_for_plan(f"the turn of '{pool.spec.name}'")
        if self.reason_to_plan is not None:
            self.staffing.ask(self.now, self.reason_to_plan)
            self.reason_to_plan = None
        if self.now >= self.staffing.due_at:
            for name in self.quarantined:
                self.staffing.remove_node(name)
            self.staffing.withhold([(self.pools[pool].spec.need, place) for _, pool, place in self.withheld])
            move = self.staffing.decide(self.now, self.nodes, self._is_runnable)
            for worker in (*move.leaving, *move.moved):
                drain(self, worker)
            self.pending = {}
            for index, placement in move.places:
                self.want_at(index, placement)
        start_missing(self)
        if not unstick(self):
            self.staffing.hurry(self.now)

    def _is_runnable(self, pool: PoolState, with_credit: bool) -> bool:
        return is_runnable(self, pool, with_credit=with_credit)

    def _whose_turn(self) -> PoolState | None:
        """Return a pool that has work and nobody to do it, while somebody with what it needs has nothing to do."""
        for pool in reversed(self.pools):
            if not pool.workers and is_runnable(self, pool) and self._is_worth_a_turn(pool):
                gpu = pool.spec.need.requires_gpu
                if any(other.idle and other.spec.need.requires_gpu >= gpu for other in self.pools):
                    return pool
        return None

    def _is_worth_a_turn(self, pool: PoolState) -> bool:
        """Tell whether a pool would work for longer than it takes to start, or nobody else can do anything."""
        start_up, rate = pool.estimate.start_up_seconds or 0.0, pool.estimate.rate.rate() or 0.0
        is_all_there = self.first_open >= pool.index or not (self.busy or self.in_transition)
        return is_all_there or pool.queued >= _TURN_IN_START_UPS * start_up * rate
