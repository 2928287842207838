"""Measure the overhead of the scheduler and the quality of its plans in every scenario of the design.

python benchmarks/scheduler.py            everything (about a minute)
python benchmarks/scheduler.py planner    only the planner; likewise: events, scenarios, forecast
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from penstock.backends.simulated.forecast import PoolModel, forecast
from penstock.backends.simulated.law import Law, constant
from penstock.backends.simulated.simulate import simulate
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.resources import Resources
from penstock.schedule.allocate import Demand, allocate
from penstock.schedule.events import Output, Tick
from penstock.schedule.pack import Space
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings

# The scenarios are those of the tests: what is measured here is asserted there.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "schedule"))
import scenarios


def seconds_of(work: Callable[[], object], times: int) -> list[float]:
    """Return the CPU seconds of this process for each of several runs."""
    taken = []
    for _ in range(times):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return taken


def planner() -> None:
    cluster = Cluster(tuple(Node(f"n{i}", 128, 1000, (Gpu(80),) * 8) for i in range(1000)))
    empty = Space.of(cluster)
    shares = [0, 0, 0, 0.25, 0.5, 1, 2, 4]
    times, efficiencies = [], []
    for seed in range(50):
        chance = random.Random(seed)
        demands = [
            Demand(
                Resources(cpus=chance.choice([0.5, 1, 2, 4]), gpus=chance.choice(shares)),
                chance.uniform(0.1, 10),
                chance.uniform(1e5, 1e6),
            )
            for _ in range(30)
        ]
        # The least of several: this machine does other things, too.
        times.append(min(seconds_of(lambda demands=demands: allocate(demands, cluster, empty), 7)))  # type: ignore[misc]
        allocation = allocate(demands, cluster, empty)
        assert allocation is not None
        efficiencies.append(allocation.efficiency)
    print(
        f"planner, 30 pools on 1,000 nodes, 50 random pipelines: median {1e3 * statistics.median(times):.1f} ms, "
        f"worst {1e3 * max(times):.1f} ms; plan over fluid bound {min(efficiencies):.4f} at least"
    )


def events() -> None:
    """Replay a recorded run into a fresh scheduler, so that only the scheduler is measured."""
    scenario = scenarios.tiny_tasks(20_000)
    trace, _ = scenario.run()
    count = sum(max(1, len(together)) for _, together in trace.handled)
    fresh = Scheduler(scenario.pools, scenario.cluster, Settings(memory_budget=scenario.budget))
    sources = [Output(f"0_{i}", (0, i), 0) for i in range(scenario.items)]
    begin = time.process_time()
    fresh.begin(0.0, sources)
    for now, together in trace.handled:
        fresh.wake_at()
        fresh.handle(now, *(together or [Tick()]))
    taken = time.process_time() - begin
    print(f"events: {count / taken:,.0f} per second, {1e6 * taken / trace.tasks:.0f} us for a task")
    _large_cluster()


def _large_cluster() -> None:
    cluster = Cluster(tuple(Node(f"n{i}", 32, 256, (Gpu(80),) * 8) for i in range(1000)))
    scenario = scenarios.Scenario(
        [PoolSpec("read"), PoolSpec("embed", Resources(gpus=1))],
        [Law(constant(0.5)), Law(constant(5.0))],
        cluster,
        40_000,
    )
    begin = time.process_time()
    trace, _ = simulate(scenario.pools, scenario.laws, cluster, scenario.items)
    taken = time.process_time() - begin
    print(
        f"        8,000 GPU workers on 1,000 nodes: {1e6 * taken / trace.tasks:.0f} us for a task, simulator included "
        f"({trace.starts:,} workers, {trace.tasks:,} tasks, {taken:.1f} s)"
    )


def every_scenario() -> None:
    """Print one row per scenario, and explain where the attainable bound is not the fluid bound."""
    titles = "last result  to 90 %  plans  of fluid  of attainable  peak/budget  starts/1k  redone s  spilled  real s"
    head = titles.split("  ")
    print(f"{'scenario':<25}" + "  ".join(head))
    reasons = []
    for name, make in {**scenarios.ALL, "S8 tiny tasks": lambda: scenarios.tiny_tasks(100_000)}.items():
        scenario = make()
        begin = time.process_time()
        trace, scheduler = scenario.run()
        real = time.process_time() - begin
        last = trace.result_times[-1]
        per_source = len(trace.results) / scenario.items
        figures = (
            f"{last:.1f} s",
            _time_to(trace.result_times, 0.9 * per_source * min(scenario.best_rate, scenario.items / scenario.best_s)),
            str(sum(record.applied for record in scheduler.plans)),
            f"{scenario.fluid_s / last:.3f}",
            f"{scenario.best_s / last:.3f}",
            f"{trace.peak_bytes / scenario.budget:.3f}" if scenario.budget < scenarios.PLENTY else "-",
            f"{1000 * trace.starts / trace.tasks:.1f}",
            f"{trace.lost_seconds:.1f}",
            str(scheduler.credits.spilled),
            f"{real:.1f}",
        )
        print(f"{name:<25}" + "  ".join(figure.rjust(len(title)) for figure, title in zip(figures, head, strict=True)))
        if scenario.why:
            bounds = f"fluid {scenario.fluid_s:.1f} s, attainable {scenario.best_s:.1f} s"
            reasons.append(f"{name.split()[0]:>4}: {bounds}: {scenario.why}")
    print("\nTimes are virtual seconds. 'to 90 %': from when on results came at nine tenths of the attainable rate.")
    print("'of fluid': as if workers could be cut as finely as one likes, from the first moment, with any memory.")
    print("'of attainable': as if everything were known beforehand, with whole workers that take their time to start.")
    print("\n".join(reasons))


def _time_to(times: list[float], rate: float) -> str:
    """Return when results first reached this rate, over a window of a tenth of the run and at least 5 s."""
    window = max(5.0, 0.1 * times[-1])
    first = 0
    for last, end in enumerate(times):
        while times[first] < end - window:
            first += 1
        if end >= window and last - first + 1 >= rate * window:
            return f"{end - window:.1f}"
    return "never"


def forecasts() -> None:
    models = [
        PoolModel("read", Resources(), 0.05, output_bytes=1e6, start_up=1.0),
        PoolModel("embed", Resources(gpus=1), 0.4, fan_out=0.5, batch_size=8, start_up=40.0),
        PoolModel("caption", Resources(gpus=0.5), 0.2),
    ]
    cluster = Cluster(tuple(Node(f"n{i}", 128, 1000.0, (Gpu(80),) * 8) for i in range(1000)))
    begin = time.process_time()
    result = forecast(models, cluster, 100_000_000)
    print(
        f"forecast, 1,000 nodes with 8 GPUs, 100,000,000 items: {time.process_time() - begin:.1f} s; "
        f"says {result.seconds:.0f} s, {result.efficiency:.3f} of the bound"
    )


PARTS: dict[str, Callable[[], None]] = {
    "planner": planner,
    "events": events,
    "scenarios": every_scenario,
    "forecast": forecasts,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
