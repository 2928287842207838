"""The scheduler: events in, actions out.

Everything that affects the state of a run comes through ``handle``; this file does not know which backend is on the
other side. After the events are applied, these steps follow in order: kill workers whose batch is overdue, replace
workers that do not answer, grant credit to workers that wait for it, assign work to free workers, plan again if there
is a reason, and admit one batch beyond the credit limits if nothing moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    note_completed_pools,
    release_credit,
    running_batch,
    take_outputs,
)
from penstock.schedule.liveness import check_answers, note_activity, note_answer, stalled_at
from penstock.schedule.nodes import Nodes
from penstock.schedule.quarantine import note_success
from penstock.schedule.regeneration import lose_items
from penstock.schedule.staffing import PlanRecord, Staffing
from penstock.schedule.state import Item, PoolSpec, PoolState, RunState, Settings, WorkerState
from penstock.schedule.workforce import (
    drain,
    end_batch,
    note_placed,
    note_ready,
    recycle_if_due,
    shut_down,
    start_missing,
)

# Where pools take turns on the machines, a pool gets a turn when its queued work lasts for this many start-up times.
_MIN_TURN_IN_START_UPS = 4.0
_WORK_EVENTS = (Emitted, BatchDone, BatchFailed)


class Scheduler:
    """Turn events into actions. Owns the state of one run; nothing else changes it."""

    def __init__(self, specs: Sequence[PoolSpec], cluster: Cluster, settings: Settings) -> None:
        pools = [PoolState(i, spec, ordered=spec.batch_size > 1) for i, spec in enumerate(specs)]
        ordered = [pool.index for pool in pools if pool.ordered]
        spills = [spec.barrier or settings.batch_mode for spec in specs[1:]]
        self.state = RunState(
            settings=settings,
            pools=pools,
            nodes=Nodes(cluster),
            credits=Credits(settings.memory_budget, [spec.batch_size for spec in specs[1:]], spills),
            frontiers={index: Frontier() for index in ordered},
            next_ordered=[next((j for j in ordered if j > pool.index), None) for pool in pools],
        )
        self.staffing = Staffing(pools, self.state.nodes, settings, self.state.credits)

    @property
    def pools(self) -> Sequence[PoolState]:
        """The pools of the run, in order."""
        return self.state.pools

    @property
    def workers(self) -> Mapping[str, WorkerState]:
        """The workers that exist now, by id."""
        return self.state.workers

    @property
    def credits(self) -> Credits:
        """The memory budget and what is held of it."""
        return self.state.credits

    @property
    def fatal(self) -> str | None:
        """The error that ends the run; None while there is none."""
        return self.state.fatal

    @property
    def stopping(self) -> bool:
        """Whether the user has asked the run to stop."""
        return self.state.stopping

    def begin(self, now: float, outputs: Sequence[Output]) -> list[Action]:
        """Put the initial items into the queue of the first pool and return the first actions."""
        run = self.state
        run.now = run.moved_at = run.worked_at = run.active_at = now
        run.begins_with_root = any(len(output.order) == 1 for output in outputs)
        run.ask_for_plan("start")
        for output in outputs:
            enqueue(run, Item(output.id, output.order, 0, output.size, output.rows))
        note_completed_pools(run)
        return self._settle()

    def handle(self, now: float, *events: Event) -> list[Action]:
        """Apply events to the state and return the actions to carry out."""
        run = self.state
        run.now = max(now, run.now)
        for event in events:
            self._note(event)
            if isinstance(event, _WORK_EVENTS):
                run.moved_at = run.worked_at = run.now
            elif isinstance(event, WorkerReady):
                run.moved_at = run.now
        return self._settle()

    @property
    def finished(self) -> bool:
        """Whether the run is over: no item is left (or the run has failed), and no worker exists."""
        run = self.state
        return (not run.items or run.fatal is not None) and not run.workers

    @property
    def plans(self) -> list[PlanRecord]:
        """Every plan that was recorded, with its reason."""
        return self.staffing.records

    def wake_at(self) -> float:
        """Return the time of the next scheduled step: a plan, a deadline, or a check for workers that do not answer."""
        run = self.state
        due_at = inf if run.shutting_down else self.staffing.due_at
        stalled = stalled_at(run)
        return min(due_at, next_deadline(run), run.next_check, stalled if stalled > run.now else inf)

    def _note(self, event: Event) -> None:
        run = self.state
        match event:
            case WorkerPlaced(worker_id):
                note_placed(run, worker_id)
            case WorkerAnswered(worker_id, batch_id):
                note_answer(run, worker_id, batch_id)
            case WorkerReady(worker_id):
                note_ready(run, worker_id)
            case WorkerGone(worker_id):
                worker_gone(run, worker_id)
            case WorkerLost(worker_id, reason, step, rows, from_outside):
                worker_lost(run, worker_id, Death(reason, step, rows, from_outside))
            case CreditWanted(worker_id, batch_id, size):
                note_want(run, worker_id, batch_id, size)
            case Emitted(worker_id, batch_id, outputs):
                take_outputs(run, worker_id, batch_id, outputs)
            case BatchDone(worker_id, batch_id, seconds, resident):
                self._batch_done(worker_id, batch_id, seconds, resident)
            case BatchFailed(worker_id, batch_id, error, stops_run):
                batch_failed(run, worker_id, batch_id, error, stops_run=stops_run)
            case InputsLost(worker_id, batch_id, items):
                inputs_lost(run, worker_id, batch_id, items)
            case ItemsLost(items):
                lose_items(run, items)
            case NodeAdded(node):
                run.nodes.add(node)
                run.ask_for_plan(f"node '{node.name}' joined")
            case NodeLost(name):
                node_lost(run, name)
            case StopAsked():
                abandon_sources(run)
            case Tick():
                pass

    def _batch_done(self, worker_id: str, batch_id: int, seconds: float, resident: int) -> None:
        run = self.state
        batch = running_batch(run, worker_id, batch_id)
        if batch is None:
            return
        worker, pool = run.workers[worker_id], run.pools[batch.pool]
        worker.tasks_done += 1
        note_success(run, worker)
        pool.survived += 1
        worker.first_resident_bytes = worker.first_resident_bytes or resident
        worker.resident_bytes = resident
        if resident:
            pool.estimate.resident.observe(resident)
        end_batch(run, worker)
        release_credit(run, batch)
        if batch.recovery is not None:
            batch.recovery.passed()
            search_on(run, batch)
        else:
            first = pool.estimate.rate.items == 0
            if pool.estimate.finished(run.now, len(batch.items), len(batch.emitted), seconds, pool.running):
                run.ask_for_plan(f"'{pool.spec.name}' has shifted")
            elif first:
                run.ask_for_plan(f"'{pool.spec.name}' was measured")
            close(run, batch)
        recycle_if_due(run, worker)

    def _settle(self) -> list[Action]:
        run = self.state
        kill_overdue(run)
        check_answers(run)
        if not run.items or run.fatal is not None:
            shut_down(run)
        if run.fatal is None:
            grant_credit(run)
            dispatch(run)
            self._staff()
        note_activity(run)
        actions, run.actions = run.actions, []
        return actions

    def _staff(self) -> None:
        """Plan if there is a reason to, start and stop workers by the plan, and make sure that work can proceed."""
        run = self.state
        if run.shutting_down:
            return
        if self.staffing.taking_turns and (pool := self._whose_turn()) is not None:
            run.ask_for_plan(f"the turn of '{pool.spec.name}'")
        if run.reason_to_plan is not None:
            self.staffing.ask(run.now, run.reason_to_plan)
            run.reason_to_plan = None
        if run.now >= self.staffing.due_at:
            self.staffing.withhold([(run.pools[pool].spec.need, place) for _, pool, place in run.withheld])
            move = self.staffing.decide(run.now, self._is_runnable)
            for worker in (*move.leaving, *move.moved):
                drain(run, worker)
            run.pending = {}
            for index, placement in move.places:
                run.want_at(index, placement)
        start_missing(run)
        if not unstick(run):
            self.staffing.hurry(run.now)

    def _is_runnable(self, pool: PoolState, with_credit: bool) -> bool:
        return is_runnable(self.state, pool, with_credit=with_credit)

    def _whose_turn(self) -> PoolState | None:
        """Return a pool that has work but no worker, while a pool with suitable resources has an idle worker."""
        run = self.state
        for pool in reversed(run.pools):
            if not pool.workers and is_runnable(run, pool) and self._is_worth_a_turn(pool):
                gpu = pool.spec.need.requires_gpu
                if any(other.idle and other.spec.need.requires_gpu >= gpu for other in run.pools):
                    return pool
        return None

    def _is_worth_a_turn(self, pool: PoolState) -> bool:
        """Tell whether a pool has work for several start-up times, or no other pool can do anything."""
        run = self.state
        start_up, rate = pool.estimate.start_up_seconds or 0.0, pool.estimate.rate.rate() or 0.0
        input_is_complete = run.first_open >= pool.index or not (run.busy or run.in_transition)
        return input_is_complete or pool.queued >= _MIN_TURN_IN_START_UPS * start_up * rate
