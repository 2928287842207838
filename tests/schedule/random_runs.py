"""Random pipelines on random clusters, for hypothesis to draw and the simulator to run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from hypothesis import strategies as st

from penstock.backends.simulated.law import Law, Order, ServiceLaw, constant, exponential, heavy_tailed
from penstock.backends.simulated.simulate import simulate
from penstock.backends.simulated.simulation import Simulation
from penstock.backends.simulated.trace import Trace
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.resources import Resources
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings

ONE_CPU = Resources()
NEEDS = (
    ONE_CPU,
    Resources(cpus=0.5),
    Resources(cpus=2),
    Resources(memory_gb=3.0),
    Resources(gpus=0.25),
    Resources(cpus=0.5, gpus=0.6),
    Resources(gpus=1),
    Resources(gpus=2),
    Resources(gpu_memory_gb=30.0),
)
LAWS = {"constant": constant, "exponential": exponential, "heavy": heavy_tailed}
FANS = ("one", "filter", "many", "none")


class Brief:
    """Show only values that are not the default, so that a failing example can be read."""

    def __repr__(self) -> str:
        shown = (f.name for f in fields(self) if getattr(self, f.name) != f.default)  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


@dataclass(frozen=True, repr=False)
class PoolCase(Brief):
    """One pool, as numbers that can be copied from a failing example."""

    seconds: float = 0.1
    law: str = "constant"
    need: Resources = ONE_CPU
    batch_size: int = 1
    fan: str = "one"
    size: int = 0
    workers: int | None = None
    barrier: bool = False
    start_up: float = 0.0
    stop: float = 0.0
    # Every n-th source item has a poisonous row here, or is refused.
    poison_every: int = 0
    refuse_every: int = 0
    hang_probability: float = 0.0
    timeout_s: float | None = None
    setup_fails_first: int = 0
    late_results: bool = False
    max_tasks: int | None = None
    # Every n-th started worker never gets its resources, or is never ready.
    unplaced_every: int = 0
    never_ready_every: int = 0
    silence_probability: float = 0.0
    lost_report_probability: float = 0.0
    lost_end_probability: float = 0.0


@dataclass(frozen=True, repr=False)
class RunCase(Brief):
    """One run."""

    pools: tuple[PoolCase, ...]
    nodes: tuple[Node, ...]
    items: int = 10
    rows: int = 4
    budget: int = 10**9
    batch_mode: bool = False
    seed: int = 0
    kills: int = 0
    lost_node: str | None = None
    joins: bool = False
    # A node that vanishes, when that happens, and whether it is ever reported.
    silent_node: str | None = None
    silent_from: float = 0.0
    is_reported: bool = False

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.nodes)

    @property
    def settings(self) -> Settings:
        silent = self.silent_node is not None or any(pool.unplaced_every for pool in self.pools)
        return Settings(
            memory_budget=self.budget,
            batch_mode=self.batch_mode,
            place_timeout_s=120.0 if silent else None,
            start_timeout_s=900.0,
        )

    @property
    def joining(self) -> Node:
        return Node("late", 4, 32, (Gpu(80),))

    def specs(self, prefix: str = "pool") -> list[PoolSpec]:
        return [
            PoolSpec(
                f"{prefix}{i}",
                pool.need,
                pool.batch_size,
                pool.workers,
                pool.barrier,
                pool.timeout_s,
                max_tasks_per_worker=pool.max_tasks,
            )
            for i, pool in enumerate(self.pools)
        ]

    def laws(self) -> list[Law]:
        return [
            Law(
                _service(pool),
                lambda order, fan=pool.fan: fan_out(fan, order),  # type: ignore[misc]
                lambda order, size=pool.size: output_bytes(size, order),  # type: ignore[misc]
                rows=self.rows,
                start_up=pool.start_up,
                stop=pool.stop,
                poison=lambda order, every=pool.poison_every: poison(every, order, self.rows),  # type: ignore[misc]
                refuses=lambda order, every=pool.refuse_every: hits(every, order),  # type: ignore[misc]
                hang_probability=pool.hang_probability,
                setup_fails=lambda attempt, first=pool.setup_fails_first: attempt <= first,  # type: ignore[misc]
                late_results=pool.late_results,
                place_is_taken=lambda attempt, every=pool.unplaced_every: every_nth(every, attempt),  # type: ignore[misc]
                setup_hangs=lambda attempt, every=pool.never_ready_every: every_nth(every, attempt),  # type: ignore[misc]
                silence_probability=pool.silence_probability,
                lost_report_probability=pool.lost_report_probability,
                lost_end_probability=pool.lost_end_probability,
            )
            for pool in self.pools
        ]

    def run(self, *, prefix: str = "pool", seed: int | None = None) -> tuple[Trace, Scheduler]:
        return simulate(
            self.specs(prefix),
            self.laws(),
            self.cluster,
            self.items,
            self.settings,
            seed=self.seed if seed is None else seed,
            rows=self.rows,
            before=self._trouble,
            record=True,
        )

    def _trouble(self, simulation: Simulation) -> None:
        chance = random.Random(self.seed)
        for _ in range(self.kills):
            simulation.at(chance.uniform(0, 10), lambda: simulation.kill_worker(chance))
        if self.lost_node is not None:
            name = self.lost_node
            simulation.at(chance.uniform(0, 5), lambda: simulation.lose_node(name))
        if self.silent_node is not None:
            silent = self.silent_node
            simulation.at(self.silent_from, lambda: simulation.silence_node(silent))
            if self.is_reported:
                simulation.at(self.silent_from + 40.0, lambda: simulation.lose_node(silent))
        if self.joins:
            simulation.at(chance.uniform(0, 5), lambda: simulation.add_node(self.joining))


def _service(pool: PoolCase) -> ServiceLaw:
    return LAWS[pool.law](pool.seconds)


def fan_out(fan: str, order: Order) -> int:
    """Return the number of outputs of an item, from its position alone, so that every attempt has the same result."""
    position = sum(order)
    return {"one": 1, "none": 0, "filter": int(position % 3 > 0), "many": 1 + position % 4}[fan]


def output_bytes(size: int, order: Order) -> int:
    return size * (1 + sum(order) % 3)


def hits(every: int, order: Order) -> bool:
    return every > 0 and order[1] % every == every - 1


def every_nth(every: int, attempt: int) -> bool:
    return every > 0 and attempt % every == 0


def poison(every: int, order: Order, rows: int) -> tuple[int, ...]:
    return (order[1] % rows,) if hits(every, order) else ()


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    return tuple(
        Node(f"n{i}", draw(st.sampled_from([1, 2, 4, 8])), 16.0, tuple(Gpu(m) for m in memories))
        for i, memories in enumerate(
            draw(st.lists(st.lists(st.sampled_from([40, 80]), max_size=3), min_size=1, max_size=3))
        )
    )


@st.composite
def calm_pools(draw: st.DrawFn, cluster: Cluster) -> PoolCase:
    """A pool without failures that fits on some node."""
    fitting = [need for need in NEEDS if cluster.why_not(need) is None] or [Resources(cpus=0.5)]
    return PoolCase(
        seconds=draw(st.sampled_from([0.001, 0.05, 0.3, 1.0])),
        law=draw(st.sampled_from(sorted(LAWS))),
        need=draw(st.sampled_from(fitting)),
        batch_size=draw(st.sampled_from([1, 1, 1, 2, 5])),
        fan=draw(st.sampled_from(FANS[:3])),
        size=draw(st.sampled_from([0, 1, 100, 1000])),
        workers=draw(st.sampled_from([None, None, None, 1, 2])),
        barrier=draw(st.sampled_from([False, False, False, False, True])),
        start_up=draw(st.sampled_from([0.0, 0.0, 0.5, 5.0])),
        stop=draw(st.sampled_from([0.0, 0.0, 1.0])),
        max_tasks=draw(st.sampled_from([None, None, None, 3])),
    )


@st.composite
def calm_runs(draw: st.DrawFn) -> RunCase:
    """A run without failures."""
    machines = draw(nodes())
    pools = draw(st.lists(calm_pools(Cluster(machines)), min_size=1, max_size=5))
    while sum(pool.fan == "many" for pool in pools) > 2:
        pools[next(i for i, pool in enumerate(pools) if pool.fan == "many")] = replace(pools[0], fan="one")
    return RunCase(
        tuple(pools),
        machines,
        items=draw(st.integers(0, 25)),
        rows=draw(st.sampled_from([1, 4])),
        budget=draw(st.sampled_from([1, 3_000, 20_000, 10**9])),
        batch_mode=draw(st.sampled_from([False, False, False, True])),
        seed=draw(st.integers(0, 1000)),
    )


@st.composite
def troubled_runs(draw: st.DrawFn) -> RunCase:
    """A run with deaths, poison, hangs, failing setups, and nodes that come and go."""
    run = draw(calm_runs())
    pools = [draw(_troubled(pool)) for pool in run.pools]
    rest = Cluster(run.nodes[1:])
    may_lose = len(run.nodes) > 1 and all(rest.why_not(pool.need) is None for pool in pools)
    return replace(
        run,
        pools=tuple(pools),
        kills=draw(st.sampled_from([0, 1, 2, 10])),
        lost_node=run.nodes[0].name if may_lose and draw(st.booleans()) else None,
        joins=draw(st.booleans()),
    )


@st.composite
def _troubled(draw: st.DrawFn, pool: PoolCase) -> PoolCase:
    hang = draw(st.sampled_from([0.0, 0.0, 0.1]))
    return replace(
        pool,
        poison_every=draw(st.sampled_from([0, 0, 0, 7])),
        refuse_every=draw(st.sampled_from([0, 0, 0, 9])),
        hang_probability=hang,
        timeout_s=20.0 * pool.batch_size if hang or draw(st.booleans()) else None,
        setup_fails_first=draw(st.sampled_from([0, 0, 1, 2])),
        late_results=draw(st.booleans()),
    )


@st.composite
def unresponsive_runs(draw: st.DrawFn) -> RunCase:
    """A run with failures in which workers that start, run or stop, and nodes, may also not answer."""
    run = draw(troubled_runs())
    rest = Cluster(tuple(node for node in run.nodes[1:] if node.name != run.lost_node))
    may_vanish = all(rest.why_not(pool.need) is None for pool in run.pools)
    return replace(
        run,
        pools=tuple(draw(_unresponsive(pool)) for pool in run.pools),
        items=min(run.items, 8),
        rows=1,
        silent_node=run.nodes[0].name if may_vanish and not run.lost_node and draw(st.booleans()) else None,
        silent_from=draw(st.sampled_from([0.0, 0.1, 3.0, 30.0])),
        is_reported=draw(st.booleans()),
    )


@st.composite
def _unresponsive(draw: st.DrawFn, pool: PoolCase) -> PoolCase:
    return replace(
        pool,
        start_up=draw(st.sampled_from([pool.start_up, pool.start_up, 600.0])),
        unplaced_every=draw(st.sampled_from([0, 0, 0, 1, 2, 3])),
        never_ready_every=draw(st.sampled_from([0, 0, 0, 1, 2, 3])),
        silence_probability=draw(st.sampled_from([0.0, 0.0, 0.1, 1.0])),
        lost_report_probability=draw(st.sampled_from([0.0, 0.0, 0.1, 1.0])),
        lost_end_probability=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0])),
    )


def expected_results(run: RunCase, dead: Sequence[tuple[int, str]] = ()) -> tuple[set[str], set[str]]:
    """Return the required and the allowed results: items that failed may have emitted outputs before."""
    must, may = set(), set()
    gone = set(dead)

    def follow(pool: int, name: str, order: Order, *, certain: bool) -> None:
        certain = certain and (pool, name) not in gone
        if pool == len(run.pools):
            may.add(name)
            if certain:
                must.add(name)
            return
        count = fan_out(run.pools[pool].fan, order)
        for index in range(count):
            child = (name, order) if count == 1 else (f"{name}_{index}", (*order, index))
            follow(pool + 1, *child, certain=certain)

    for i in range(run.items):
        follow(0, f"0_{i}", (0, i), certain=True)
    return must, may
