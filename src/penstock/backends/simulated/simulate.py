"""Run items through simulated pools, with the real scheduler, on a cluster that need not exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.backends.backend import drive
from penstock.backends.simulated.law import Law
from penstock.backends.simulated.simulation import Simulation
from penstock.backends.simulated.trace import Trace
from penstock.core.cluster import Cluster
from penstock.schedule.events import Output
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings


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
    record: bool = False,
) -> tuple[Trace, Scheduler]:
    """Run source items through simulated pools, and return the trace and the scheduler.

    >>> from penstock.backends.simulated.law import constant
    >>> from penstock.core.cluster import Node
    >>> machine = Cluster((Node("here", cpus=4, memory_gb=16),))
    >>> trace, _ = simulate([PoolSpec("read"), PoolSpec("clean")], [Law(constant(1)), Law(constant(3))], machine, 100)
    >>> len(trace.results), trace.finished_at
    (100, 103.0)
    """
    settings = settings or Settings(memory_budget=2**40)
    scheduler = Scheduler(pools, cluster, settings)
    simulation = Simulation(laws, seed, record=record, tells_places=settings.place_timeout_s is not None)
    sources = [Output(f"0_{i}", (0, i), 0, rows) for i in range(items)]
    simulation.add_items(sources)
    if before is not None:
        before(simulation)
    drive(scheduler, simulation, scheduler.begin(0.0, sources))
    simulation.trace.finished_at = simulation.now()
    simulation.trace.left_over = simulation.stored_items
    return simulation.trace, scheduler
