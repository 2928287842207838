"""How many workers each pool should have now: when to plan, and when a better plan is worth moving for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf

from penstock.core.cluster import Cluster, Node
from penstock.core.resources import Resources
from penstock.schedule.allocate import Allocation, Demand, allocate
from penstock.schedule.pack import Nodes, Space, packing_order, packs
from penstock.schedule.state import Pool, Settings, Worker

_WORTH_IT = 0.97
_CONFIDENCE = 1.64
_PATIENCE = 2.0


@dataclass(frozen=True)
class PlanRecord:
    """One plan, why it was made, and what became of it."""

    at: float
    reason: str
    workers: tuple[int, ...]
    # How near the plan is to what the machines could do if workers could be cut as finely as one likes.
    efficiency: float
    bottleneck: str | None
    applied: bool


class Staffing:
    """Decides on worker counts for the pools of one run."""

    def __init__(self, pools: Sequence[Pool], cluster: Cluster, settings: Settings) -> None:
        self.records: list[PlanRecord] = []
        self.allocation: Allocation | None = None
        # Whether not even one worker of every pool fits at the same time, so that pools take turns.
        self.taking_turns = False
        self.due_at = inf
        self._pools = pools
        self._cluster = cluster
        self._settings = settings
        self._reason = ""
        self._interval = 1.0

    def ask(self, now: float, reason: str) -> None:
        """Ask for a plan as soon as possible; the first reason given is the one recorded."""
        self._reason = self._reason if self.due_at <= now else reason
        self.due_at = min(self.due_at, now)

    def add_node(self, node: Node) -> None:
        """Take a machine in."""
        self._cluster = Cluster((*self._cluster.nodes, node))

    def remove_node(self, name: str) -> None:
        """Leave a machine out."""
        self._cluster = Cluster(tuple(node for node in self._cluster.nodes if node.name != name))

    def decide(self, now: float, nodes: Nodes, is_runnable: Callable[[Pool], bool]) -> list[str]:
        """Plan if it is due; set how many workers each pool wants, and return the workers that have to go."""
        if now < self.due_at:
            return []
        reason, self._reason = self._reason or "it was time", ""
        demands = self._demands(now)
        allocation = allocate(demands, self._cluster)
        self.taking_turns = allocation is None
        if allocation is None:
            demands, allocation = self._turn(demands, is_runnable)
        give_up, applied = self._move(demands, allocation, nodes)
        bottleneck = None if allocation.bottleneck is None else self._pools[allocation.bottleneck].spec.name
        changed = self.allocation is None or self.allocation.workers != allocation.workers
        self.allocation = allocation
        if applied or (changed and not self.taking_turns):
            self.records.append(PlanRecord(now, reason, allocation.workers, allocation.efficiency, bottleneck, applied))
        self._interval = 1.0 if applied else min(2 * self._interval, self._settings.autoscale_interval_s)
        self.due_at = now + self._interval
        return give_up

    def remaining(self) -> list[float]:
        """Return how many items are still to come through each pool, as far as anybody can tell."""
        coming, result = 0.0, []
        for pool in self._pools:
            here = coming + pool.items
            result.append(here)
            coming = here * pool.estimate.fan_out
        return result

    def _demands(self, now: float) -> list[Demand]:
        remaining = self.remaining()
        demands = []
        for pool, work in zip(self._pools, remaining, strict=True):
            waits = (pool.spec.barrier or self._settings.batch_mode) and any(p.items for p in self._pools[: pool.index])
            if work == 0 or waits:
                demands.append(Demand(pool.spec.need, None, 0.0, least=0, most=0))
                continue
            most = ceil(work / pool.spec.batch_size)
            if pool.spec.workers is not None:
                fixed = min(pool.spec.workers, most) if pool.estimate.items_in else pool.spec.workers
                demands.append(Demand(pool.spec.need, None, work, least=fixed, most=fixed))
                continue
            rate = self._rate(pool, now)
            # Until something downstream was measured nobody knows how much will come: the count is no bound then.
            known = all(p.estimate.items_in for p in self._pools[: pool.index])
            demands.append(Demand(pool.spec.need, rate, work, least=1, most=most if known else None))
        return self._held_back(self._with_sole_users(demands))

    def _rate(self, pool: Pool, now: float) -> float | None:
        """Return the rate of a pool; where nothing has come out yet for long, what that says: it is no faster."""
        rate = pool.estimate.rate.rate([pool.age_in_flight(now)])
        if rate is not None or not pool.running:
            return rate
        age = pool.age_in_flight(now) / pool.running
        longest = max((p.estimate.rate.service_seconds for p in self._pools), default=0.0)
        return pool.spec.batch_size / age if 0 < _PATIENCE * longest < age else None

    def _held_back(self, demands: list[Demand]) -> list[Demand]:
        """Let nobody grow at the cost of a pool that was not measured yet: it would have to give back at once."""
        unmeasured = [d.need.requires_gpu for d in demands if d.rate is None and d.work > 0 and d.least != d.most]
        held = []
        for pool, demand in zip(self._pools, demands, strict=True):
            if demand.rate is not None and demand.need.requires_gpu in unmeasured:
                staffed = max(1, pool.staffed)
                demand = Demand(demand.need, demand.rate, demand.work, staffed, staffed)
            held.append(demand)
        return held

    def _with_sole_users(self, demands: list[Demand]) -> list[Demand]:
        """Give a pool that was not measured yet every worker whose resource no other pool could use."""
        growable = [i for i, d in enumerate(demands) if d.work > 0 and d.least != d.most]
        for i in growable:
            demand = demands[i]
            rivals = [j for j in growable if j != i and demands[j].need.requires_gpu >= demand.need.requires_gpu]
            if demand.rate is not None or rivals:
                continue
            space = Space.of(self._cluster)
            if not packs(self._cluster, [(d.need, d.least) for d in demands], space):
                continue
            for other, d in enumerate(demands):
                if other != i:
                    space.place(d.need, d.least)
            room = space.room_for(demand.need)
            least = max(1, room if demand.most is None else min(room, demand.most))
            demands[i] = Demand(demand.need, None, demand.work, least, demand.most)
        return demands

    def _turn(self, demands: list[Demand], is_runnable: Callable[[Pool], bool]) -> tuple[list[Demand], Allocation]:
        """Choose who works now, where not everybody can: who has work and a place keeps it, then the deepest first."""

        def claim(pool: Pool) -> tuple[bool, bool, int]:
            busy = pool.running > 0
            return (not busy, not (pool.staffed and is_runnable(pool)), -pool.index)

        space = Space.of(self._cluster)
        chosen: set[int] = set()
        for pool in sorted(self._pools, key=claim):
            wants = demands[pool.index].work > 0 and (pool.running > 0 or is_runnable(pool))
            if wants and space.place(pool.spec.need, 1):
                chosen.add(pool.index)
        mine = [
            Demand(d.need, d.rate, d.work, 1, d.most) if i in chosen else Demand(d.need, None, 0.0, 0, 0)
            for i, d in enumerate(demands)
        ]
        allocation = allocate(mine, self._cluster)
        if allocation is None:  # placing them one by one has worked, so the same counts do
            allocation = Allocation(tuple(int(i in chosen) for i in range(len(demands))), inf, inf, None)
        return mine, allocation

    def _move(self, demands: Sequence[Demand], allocation: Allocation, nodes: Nodes) -> tuple[list[str], bool]:
        """Grow into what is free; take workers from others only where that ends the run sooner."""
        have = [pool.staffed for pool in self._pools]
        want = list(allocation.workers)
        missing = [(d.need, w - h) for d, w, h in zip(demands, want, have, strict=True) if w > h]
        surplus = {i: h - w for i, (w, h) in enumerate(zip(want, have, strict=True)) if h > w}
        for pool, wanted, staffed in zip(self._pools, want, have, strict=True):
            pool.wanted = max(wanted, staffed)
        if not missing:
            return [], False
        if packs(self._cluster, missing, nodes.space()):
            return [], True
        if not self._worth_it(demands, have, want):
            return [], False
        return self._make_room(missing, surplus, nodes), True

    def _make_room(self, missing: list[tuple[Resources, int]], surplus: dict[int, int], nodes: Nodes) -> list[str]:
        """Choose who goes: of pools that have too many; and where only scattered pieces are free, who has to move."""
        space, free = nodes.space(), dict(nodes.free())
        give_up: list[str] = []

        def let_go(worker: Worker, need: Resources) -> None:
            before = free[worker.placement.node]
            after = free[worker.placement.node] = before.give_back(need, worker.placement.gpus)
            space.change(before, after)
            give_up.append(worker.id)

        wants_gpu = any(need.requires_gpu for need, _ in missing)
        for pool in sorted(self._pools, key=lambda pool: pool.spec.need.requires_gpu != wants_gpu):
            for worker in pool.least_busy()[: surplus.get(pool.index, 0)]:
                if packs(self._cluster, missing, space):
                    return give_up
                pool.wanted -= 1
                let_go(worker, pool.spec.need)
        for pool in sorted(self._pools, key=lambda pool: packing_order(pool.spec.need), reverse=True):
            for worker in pool.least_busy():
                if packs(self._cluster, missing, space):
                    return give_up
                if worker.id not in give_up:
                    missing.append((pool.spec.need, 1))  # it comes back elsewhere
                    let_go(worker, pool.spec.need)
        return give_up

    def _worth_it(self, demands: Sequence[Demand], have: Sequence[int], want: Sequence[int]) -> bool:
        """Compare when the run would end if we moved with when it would end if we did not."""
        now_speed = _speed(demands, have)
        if now_speed <= 0:
            return True
        new_speed = _speed(demands, want)
        meanwhile = _speed(demands, [min(w, h) for w, h in zip(want, have, strict=True)])
        start_up = max(
            (
                pool.estimate.start_up_seconds or 0.0
                for pool, w, h in zip(self._pools, want, have, strict=True)
                if w > h
            ),
            default=0.0,
        )
        service = max(
            (pool.estimate.rate.service_seconds for pool, w, h in zip(self._pools, want, have, strict=True) if w != h),
            default=0.0,
        )
        moved = start_up + max(0.0, 1 - meanwhile * start_up) / new_speed if new_speed < inf else start_up
        noise = max(
            (pool.estimate.rate.relative_error for pool in self._pools if pool.spec.workers is None), default=0.0
        )
        gain = new_speed / now_speed - 1 if now_speed < inf else 0.0
        # Whoever is stopped ends its task first, and whoever is started has one of its own to get through.
        return moved + service < _WORTH_IT / now_speed and gain > _CONFIDENCE * min(noise, 0.25)


def _speed(demands: Sequence[Demand], workers: Sequence[int]) -> float:
    """Return the share of the remaining work done per second; a pool with work and nobody to do it stops everything."""
    return min(
        (0.0 if count == 0 and demand.work > 0 else demand.speed(count)
         for demand, count in zip(demands, workers, strict=True)),
        default=inf,
    )  # fmt: skip
