"""The scenarios S0 to S13 of the design, small enough to run in seconds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.backends.simulated.law import Law, Order, ServiceLaw, constant, heavy_tailed, shifting
from penstock.backends.simulated.simulate import simulate
from penstock.backends.simulated.simulation import Simulation
from penstock.backends.simulated.trace import Trace
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.resources import Resources
from penstock.schedule.allocate import Demand, allocate, fluid_speed
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings

ONE_GPU = Resources(gpus=1)
PLENTY = 2**40


def machine(cpus: float, gpus: int = 0) -> Cluster:
    return Cluster((Node("here", cpus, 64.0, (Gpu(80),) * gpus),))


@dataclass(frozen=True)
class Scenario:
    """Pools, their behaviour, the cluster, and the number of items."""

    pools: list[PoolSpec]
    laws: list[Law]
    cluster: Cluster
    items: int
    # Mean seconds per item of each pool, for the upper bound of the rate; empty where speed is not the limit.
    seconds: tuple[float, ...] = ()
    budget: int = PLENTY
    rows: int = 1
    before: Callable[[Simulation], None] | None = None
    visits: tuple[float, ...] = ()
    # The earliest time of the last result with perfect knowledge, and why it differs from the fluid bound.
    attainable_s: float | None = None
    why: str = ""

    def run(self, seed: int = 0) -> tuple[Trace, Scheduler]:
        settings = Settings(memory_budget=self.budget)
        return simulate(
            self.pools, self.laws, self.cluster, self.items, settings, seed=seed, rows=self.rows, before=self.before,
            record=True,
        )  # fmt: skip

    @property
    def fluid_rate(self) -> float:
        """Source items per second if fractions of workers were possible."""
        return fluid_speed(self._demands, self.cluster)

    @property
    def fluid_s(self) -> float:
        """The time of the last result at the fluid rate from the start."""
        return self.items / self.fluid_rate

    @property
    def best_s(self) -> float:
        """The earliest time of the last result; by default with whole workers instead of fractions."""
        if self.attainable_s is not None:
            return self.attainable_s
        slowest_start = max((law.start_up for law in self.laws), default=0.0)
        return slowest_start + self.items / self.best_rate

    @property
    def best_rate(self) -> float:
        """Source items per second under the best plan with whole workers."""
        best = allocate(self._demands, self.cluster)
        return best.speed if best is not None else self.fluid_rate

    @property
    def _demands(self) -> list[Demand]:
        visits = self.visits or (1.0,) * len(self.pools)
        return [
            Demand(pool.need, 1 / seconds, visit, most=pool.workers)
            for pool, seconds, visit in zip(self.pools, self.seconds, visits, strict=True)
        ]


def seeds_own(gpus: int) -> Scenario:
    """S0: fast 4/s, slow 1/s, medium 2/s."""
    seconds = (0.25, 1.0, 0.5)
    pools = [PoolSpec(name, ONE_GPU) for name in ("fast", "slow", "medium")]
    return Scenario(pools, [Law(constant(s)) for s in seconds], machine(16, gpus), 400, seconds)


def two_cpu_stages() -> Scenario:
    """S1: two stages of 0.17 s and 0.21 s on 126 CPUs."""
    seconds = (0.17, 0.21)
    return Scenario([PoolSpec("a"), PoolSpec("b")], [Law(constant(s)) for s in seconds], machine(126), 20_000, seconds)


def slow_start() -> Scenario:
    """S2: one GPU stage that takes 40 s to start, on four GPUs."""
    pools = [PoolSpec("read", workers=1), PoolSpec("embed", ONE_GPU)]
    laws = [Law(constant(0.01)), Law(constant(1.0), start_up=40)]
    return Scenario(pools, laws, machine(16, 4), 400, (0.01, 1.0), why="nothing comes out before 40 s")


def random_pipeline(seed: int) -> Scenario:
    """S3: random stages, on a cluster that is large compared with one worker."""
    chance = random.Random(seed)
    shapes = [Resources(), Resources(cpus=2), Resources(gpus=0.25), Resources(gpus=0.5), Resources(gpus=1)]
    count = chance.randint(2, 5)
    seconds = tuple(chance.choice([0.2, 0.4, 0.7, 1.0]) for _ in range(count))
    pools = [PoolSpec(f"p{i}", chance.choice(shapes)) for i in range(count)]
    laws = [Law(constant(s), start_up=chance.choice([0.5, 2.0, 10.0]) if p.need.requires_gpu else 0.5)
            for s, p in zip(seconds, pools, strict=True)]  # fmt: skip
    cluster = Cluster(tuple(Node(f"n{i}", 32, 256.0, (Gpu(80),) * 8) for i in range(3)))
    scenario = Scenario(pools, laws, cluster, 0, seconds)
    return replace(scenario, items=int(170 * scenario.fluid_rate))


def rate_shift() -> Scenario:
    """S4: one stage becomes five times slower after 30 s."""
    laws = [Law(shifting(0.2, 1.0, at=30)), Law(constant(0.4))]
    # 32 CPUs do 32/0.6 items per second for 30 s, and 32/1.4 from then on.
    best = 30 + (4_000 - 30 * 32 / 0.6) * 1.4 / 32
    why = "it is faster than after the shift for the first 30 s"
    return Scenario([PoolSpec("a"), PoolSpec("b")], laws, machine(32), 4_000, (1.0, 0.4), attainable_s=best, why=why)


def big_frames() -> Scenario:
    """S5: one clip becomes a thousand frames, of which the budget holds a hundred."""
    pools = [PoolSpec("read"), PoolSpec("cut"), PoolSpec("embed", batch_size=8)]
    laws = [
        Law(constant(0.1), output_bytes=lambda order: 1_000),
        Law(constant(1.0), fan_out=lambda order: 1_000, output_bytes=lambda order: 100_000),
        Law(constant(0.002)),
    ]
    budget, frames = 10 * 2**20, 1_000 * 100_000
    # One clip's frames fill the budget ten times, so a cutter waits until all but the last tenth are embedded:
    # 1 - budget / frames of a worker at any time. The first frames come after one clip was read and cut.
    rate = (4 - (1 - budget / frames)) / (0.1 + 1.0 + 2.0)
    return Scenario(
        pools, laws, machine(4), 10, (0.1, 1.0, 0.002), budget, visits=(1.0, 1.0, 1000.0),
        attainable_s=1.1 + 10 / rate,
        why="the budget holds a tenth of a clip: one cutter always waits to store its frames, and works on nothing",
    )  # fmt: skip


def everything_breaks() -> Scenario:
    """S6: a poisonous row, workers killed at random, and a node that leaves and rejoins."""
    nodes = (Node("here", 8, 64.0), Node("there", 8, 64.0))

    def trouble(simulation: Simulation) -> None:
        chance = random.Random(5)
        for _ in range(60):
            simulation.at(chance.uniform(0, 20), lambda: simulation.kill_worker(chance))
        simulation.at(10.0, lambda: simulation.lose_node("there"))
        simulation.at(20.0, lambda: simulation.add_node(nodes[1]))

    laws = [Law(constant(0.2), rows=8, poison=lambda order: (3,) if order == (0, 77) else ()), Law(constant(0.4))]
    # 16 CPUs for 10 s, 8 for the next 10 s, then 16 again; the work lost by kills is not counted.
    best = 20 + (800 - 10 * (16 + 8) / 0.6) * 0.6 / 16
    return Scenario(
        [PoolSpec("a"), PoolSpec("b")], laws, Cluster(nodes), 800, (0.2, 0.4), rows=8, before=trouble,
        attainable_s=best, why="half of the machines are away for 10 s",
    )  # fmt: skip


def few_inputs() -> Scenario:
    """S7: ten inputs on a cluster with room for thousands of workers."""
    cluster = Cluster(tuple(Node(f"n{i}", 64, 256.0, (Gpu(80),) * 8) for i in range(20)))
    pools = [PoolSpec("read"), PoolSpec("embed", ONE_GPU), PoolSpec("write")]
    laws = [Law(constant(2.0), start_up=1.0), Law(constant(5.0), start_up=5.0), Law(constant(1.0), start_up=1.0)]
    why = "ten items are one wave: embed is up after 5 s, then 5 s and 1 s"
    return Scenario(pools, laws, cluster, 10, (2.0, 5.0, 1.0), attainable_s=11.0, why=why)


def tiny_tasks(items: int = 20_000) -> Scenario:
    """S8: tasks of 1 ms."""
    laws = [Law(constant(0.001)), Law(constant(0.001))]
    return Scenario([PoolSpec("a"), PoolSpec("b")], laws, machine(8), items, (0.001, 0.001))


def heavy_tail() -> Scenario:
    """S9: most items are short, a few very long."""
    laws = [Law(heavy_tailed(0.1, 2.2)), Law(heavy_tailed(0.3, 2.2))]
    return Scenario([PoolSpec("a"), PoolSpec("b")], laws, machine(32), 8_000, (0.1, 0.3))


def two_stages_one_gpu() -> Scenario:
    """S10: two GPU stages that take 2 s to start, and one GPU."""
    pools = [PoolSpec("read"), PoolSpec("g1", ONE_GPU), PoolSpec("g2", ONE_GPU)]
    laws = [
        Law(constant(0.01), output_bytes=lambda order: 1_000),
        Law(constant(0.1), output_bytes=lambda order: 1_000, start_up=2),
        Law(constant(0.1), start_up=2),
    ]
    return Scenario(
        pools, laws, machine(4, 1), 1_000, (0.01, 0.1, 0.1), 200_000,
        # The budget holds 200 items: a cycle of 40 s has 4 s of start-up in it.
        attainable_s=200 / (1 - 4 / 40), why="each turn of two start-ups of 2 s is as long as the budget allows, 40 s",
    )  # fmt: skip


def slow_stops() -> Scenario:
    """S11: many workers are stopped, and each takes 10 s to stop."""
    laws = [Law(shifting(1.0, 0.05, at=30), stop=10.0), Law(constant(0.5), start_up=0.5)]
    # 32/1.5 items per second for 30 s, by 21 workers of a and 11 of b; then 18 of a stop, which takes 10 s, and as
    # many of b start, which takes 0.5 s, while 11 of b do 22 per second; then 32/0.55 per second.
    best = 40.5 + (3_000 - 30 * 32 / 1.5 - 10.5 * 22) * 0.55 / 32
    why = "stage a is slow for the first 30 s, and its workers keep 18 CPUs for 10 s more"
    return Scenario([PoolSpec("a"), PoolSpec("b")], laws, machine(32), 3_000, (0.05, 0.5), attainable_s=best, why=why)


def bursty_source() -> Scenario:
    """S12: the source pauses for 5 s again and again."""

    def bursts(order: Order, now: float, chance: random.Random) -> float:
        return 5.0 if order[1] % 200 == 199 else 0.01

    law: ServiceLaw = bursts
    pools = [PoolSpec("source", workers=1), PoolSpec("a"), PoolSpec("b")]
    return Scenario(pools, [Law(law), Law(constant(0.1)), Law(constant(0.3))], machine(17), 3_000, (0.035, 0.1, 0.3))


def thirty_stages() -> Scenario:
    """S13: thirty CPU stages on two cores."""
    laws = [Law(constant(0.01), output_bytes=lambda order: 1_000) for _ in range(30)]
    return Scenario([PoolSpec(f"p{i}") for i in range(30)], laws, machine(2), 100, (0.01,) * 30, budget=10**6)


ALL: dict[str, Callable[[], Scenario]] = {
    "S0 seed's own, 7 GPUs": lambda: seeds_own(7),
    "S1 two CPU stages": two_cpu_stages,
    "S2 slow start": slow_start,
    "S3 random pipeline": lambda: random_pipeline(3),
    "S4 rate shift": rate_shift,
    "S5 big frames": big_frames,
    "S6 everything breaks": everything_breaks,
    "S7 few inputs": few_inputs,
    "S8 tiny tasks": tiny_tasks,
    "S9 heavy tail": heavy_tail,
    "S10 two stages, one GPU": two_stages_one_gpu,
    "S11 slow stops": slow_stops,
    "S12 bursty source": bursty_source,
    "S13 thirty stages": thirty_stages,
}
