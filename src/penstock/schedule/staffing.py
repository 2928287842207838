"""Decide when to plan the worker counts, and when a better plan is worth stopping and starting workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from penstock.core.resources import Resources
from penstock.schedule.allocate import Allocation, Demand, allocate
from penstock.schedule.credit import Credits
from penstock.schedule.demands import demands_of, remaining_items
from penstock.schedule.moves import Move, find_move
from penstock.schedule.nodes import Nodes, Placement
from penstock.schedule.state import PoolState, Settings

# Tells whether a pool has a batch to run; with True as second argument, one for which there is credit.
Runnable = Callable[[PoolState, bool], bool]

# Workers are moved if that saves at least this share of the remaining time.
_MIN_SAVED_TIME = 0.03
# Every further correction without a new event has to gain this many times as much as the one before.
_GAIN_FACTOR_PER_CORRECTION = 1.5
# The gain has to exceed the measuring error by this many standard errors.
_CONFIDENCE_IN_ERRORS = 1.64
_MIN_INTERVAL_S = 1.0
# A time below this share of the task time is negligible.
_NEGLIGIBLE_TASK_SHARE = 0.1


@dataclass(frozen=True)
class PlanRecord:
    """One plan, the reason for it, and whether it was applied."""

    at: float
    reason: str
    workers: tuple[int, ...]
    # The speed of the plan relative to an upper bound that allows fractions of workers.
    efficiency: float
    bottleneck: str | None
    # Whether workers were started or stopped for it.
    applied: bool


class Staffing:
    """Decide the worker counts of the pools of one run."""

    def __init__(self, pools: Sequence[PoolState], nodes: Nodes, settings: Settings, budget: Credits) -> None:
        self.records: list[PlanRecord] = []
        self.allocation: Allocation | None = None
        # Whether one worker of every pool does not fit at the same time, so that pools take turns.
        self.taking_turns = False
        self.due_at = inf
        self._pools = pools
        self._nodes = nodes
        self._withheld: Sequence[tuple[Resources, Placement]] = ()
        self._settings = settings
        self._budget = budget
        self._reason = ""
        self._interval = _MIN_INTERVAL_S
        self._corrections = 0
        self._began_at = inf

    def ask(self, now: float, reason: str) -> None:
        """Request a plan as soon as possible; the first reason is the one recorded."""
        self._reason = self._reason if self.due_at <= now else reason
        self.due_at = min(self.due_at, now)

    def hurry(self, now: float) -> None:
        """Request a plan soon, because nothing moves."""
        self._interval = _MIN_INTERVAL_S
        self.due_at = min(self.due_at, now + self._interval)

    def withhold(self, places: Sequence[tuple[Resources, Placement]]) -> None:
        """Plan without these places: processes outside the run occupy them."""
        self._withheld = tuple(places)

    def remaining(self) -> list[float]:
        """Return an estimate of the number of items that each pool still has to process."""
        return remaining_items(self._pools)

    def decide(self, now: float, runnable: Runnable) -> Move:
        """Make a plan: set the wanted workers of each pool, and return which workers stop and where others start."""
        # The number of corrections since the last event; -1 if this plan follows an event.
        self._corrections = -1 if self._reason else max(0, self._corrections)
        reason, self._reason = self._reason or "it was time", ""
        self._began_at = min(self._began_at, now)
        demands = self._demands(now)
        allocation = self._allocate(demands)
        if allocation is None:  # perhaps only because of a fixed number of workers that does not fit
            demands = self._demands(now, insist=False)
            allocation = self._allocate(demands)
        self.taking_turns = allocation is None
        if allocation is None:
            demands, allocation = self._turn(demands, runnable)
        move, applied = self._move(demands, allocation, now)
        bottleneck = None if allocation.bottleneck is None else self._pools[allocation.bottleneck].spec.name
        changed = self.allocation is None or self.allocation.workers != allocation.workers
        self.allocation = allocation
        if applied or (changed and not self.taking_turns):
            self.records.append(PlanRecord(now, reason, allocation.workers, allocation.efficiency, bottleneck, applied))
        longest = max(_MIN_INTERVAL_S, self._settings.autoscale_interval_s)
        self._interval = _MIN_INTERVAL_S if applied else min(2 * self._interval, longest)
        self.due_at = now + self._interval
        return move

    def _allocate(self, demands: Sequence[Demand]) -> Allocation | None:
        return allocate(demands, self._nodes.cluster, self._nodes.empty_space(self._withheld))

    def _demands(self, now: float, *, insist: bool = True) -> list[Demand]:
        elapsed = now - self._began_at
        return demands_of(self._pools, self._nodes.cluster, self._settings, self._budget, now, elapsed, insist=insist)

    def _turn(self, demands: list[Demand], runnable: Runnable) -> tuple[list[Demand], Allocation]:
        """Choose the pools that run now, where not all fit: those with work and workers first, then the last pool."""
        # If no pool has credit, one has to run without credit, or all would wait forever.
        strict = any(pool.running or runnable(pool, True) for pool in self._pools)
        has_work = [pool.running > 0 or runnable(pool, strict) for pool in self._pools]

        def claim(pool: PoolState) -> tuple[bool, bool, int]:
            return (pool.running == 0, not (pool.staffed and has_work[pool.index]), -pool.index)

        space = self._nodes.empty_space(self._withheld).copy()
        chosen = {
            pool.index
            for pool in sorted(self._pools, key=claim)
            if has_work[pool.index] and demands[pool.index].work > 0 and space.place(pool.spec.need, 1)
        }
        taking_part = [
            Demand(d.need, d.rate, d.work, 1, d.most) if i in chosen else Demand(d.need, None, 0.0, 0, 0)
            for i, d in enumerate(demands)
        ]
        allocation = self._allocate(taking_part)
        if allocation is None:  # placing them one by one has worked, so the same counts do
            allocation = Allocation(tuple(int(i in chosen) for i in range(len(demands))), inf, inf, None)
        return taking_part, allocation

    def _move(self, demands: Sequence[Demand], allocation: Allocation, now: float) -> tuple[Move, bool]:
        """Use free resources; take workers from other pools only where that ends the run sooner."""
        have = [pool.staffed for pool in self._pools]
        want = [
            wanted if wanted <= staffed or _pays(pool, demand, staffed, now) else staffed
            for pool, demand, wanted, staffed in zip(self._pools, demands, allocation.workers, have, strict=True)
        ]
        for pool, wanted, staffed, needed in zip(self._pools, want, have, allocation.workers, strict=True):
            pool.wanted, pool.needed = max(wanted, staffed), needed
        if all(wanted <= staffed for wanted, staffed in zip(want, have, strict=True)):
            return Move(), False
        # Workers to stop are searched only if stopping none at all would be worth it.
        may_move = self._is_worth_it(demands, have, want, Move())
        move = find_move(self._pools, want, self._nodes, keep_all=not may_move)
        if move.leaving or move.moved:
            if self._is_worth_it(demands, have, want, move):
                self._corrections += 1
            else:  # use free resources, and stop no worker
                move = find_move(self._pools, want, self._nodes, keep_all=True)
        for worker in move.leaving:
            self._pools[worker.pool].wanted -= 1
        free = self._nodes.copy()
        starts = [free.take(self._pools[index].spec.need, placement) for index, placement in move.places]
        return move, any(starts) or bool(move.leaving or move.moved)

    def _is_worth_it(self, demands: Sequence[Demand], have: Sequence[int], want: Sequence[int], move: Move) -> bool:
        """Tell whether the run ends sooner with the change than without it."""
        now_speed = _speed(demands, have)
        if now_speed <= 0:
            return True
        new_speed = _speed(demands, want)
        moved = move.moved_by_pool
        stay = [min(w, h) - moved[i] for i, (w, h) in enumerate(zip(want, have, strict=True))]
        meanwhile = _speed(demands, stay)
        changing = [pool for pool in self._pools if not want[pool.index] == have[pool.index] == stay[pool.index]]
        starting = [pool for pool in self._pools if want[pool.index] > stay[pool.index]]
        start_up = max((pool.estimate.start_up_seconds or 0.0 for pool in starting), default=0.0)
        service = max((pool.estimate.rate.service_seconds for pool in changing), default=0.0)
        noise = max((pool.estimate.rate.relative_error for pool in changing), default=0.0)
        end = start_up + max(0.0, 1 - meanwhile * start_up) / new_speed if new_speed < inf else start_up
        gain = new_speed / now_speed - 1 if now_speed < inf else 0.0
        # A stopped worker finishes its task first, and a started one has to process its first task.
        margin = _MIN_SAVED_TIME * _GAIN_FACTOR_PER_CORRECTION ** max(0, self._corrections)
        if self._corrections >= 0:
            # Without an event, a momentary backlog is not a reason to move workers; only a better balance is.
            gain = min(gain, self._lasting_gain(demands, have, want))
        return end + service < (1 - margin) / now_speed and gain > max(margin, _CONFIDENCE_IN_ERRORS * min(noise, 0.25))

    def _lasting_gain(self, demands: Sequence[Demand], have: Sequence[int], want: Sequence[int]) -> float:
        """Return the relative gain in throughput of an endless run."""
        visits, visit = [], 1.0
        for pool in self._pools:
            visits.append(visit)
            visit *= pool.estimate.fan_out
        forever = [replace(d, work=v) if d.work > 0 else d for d, v in zip(demands, visits, strict=True)]
        now_speed, new_speed = _speed(forever, have), _speed(forever, want)
        return new_speed / now_speed - 1 if 0 < now_speed < inf else 0.0


def _pays(pool: PoolState, demand: Demand, staffed: int, now: float) -> bool:
    """Tell whether a worker started now would still have work when it is ready."""
    speed, start_up = demand.speed(staffed), pool.estimate.start_up_seconds or 0.0
    if not staffed or not 0 < speed < inf:
        return True
    # The worker has to be ready before the last batch begins, or another worker takes that batch.
    size = pool.spec.batch_size
    service = pool.estimate.rate.service_seconds or size / (demand.rate or inf)
    # A batch that runs longer than usual is expected to run on for as long as it is late.
    rest_in_hand = abs(service - pool.age_in_flight(now) / pool.running) if pool.running else 0.0
    last_begins = rest_in_hand + max(0.0, (demand.work - pool.in_hand) / size - 1) * service / staffed
    return last_begins > start_up + _NEGLIGIBLE_TASK_SHARE * service and 1 / speed > start_up + service


def _speed(demands: Sequence[Demand], workers: Sequence[int]) -> float:
    """Return the share of the remaining work done per second; 0 if a pool has work but no worker."""
    return min(
        (0.0 if count == 0 and demand.work > 0 else demand.speed(count)
         for demand, count in zip(demands, workers, strict=True)),
        default=inf,
    )  # fmt: skip
