"""Items stored on a lost node are regenerated from the nearest ancestors that still exist."""

from __future__ import annotations

from penstock.backends.simulated.law import Law, constant
from penstock.backends.simulated.simulate import simulate
from penstock.backends.simulated.simulation import Simulation
from penstock.backends.simulated.trace import Trace
from penstock.core.cluster import Cluster, Node
from penstock.core.resources import Resources
from penstock.schedule.actions import RunBatch
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings

TWO_NODES = Cluster((Node("a", 2, 16), Node("b", 2, 16)))


def run(
    pools: list[PoolSpec], laws: list[Law], *, lose_at: float | None, items: int = 20, cluster: Cluster = TWO_NODES
) -> tuple[Trace, Scheduler]:
    def trouble(simulation: Simulation) -> None:
        if lose_at is not None:
            simulation.at(lose_at, lambda: simulation.lose_node("a"))

    return simulate(pools, laws, cluster, items, Settings(memory_budget=10**6), before=trouble, record=True)


def slow_end() -> tuple[list[PoolSpec], list[Law]]:
    pools = [PoolSpec("read"), PoolSpec("clean"), PoolSpec("slow")]
    laws = [Law(constant(0.1), output_bytes=lambda _: 10) for _ in range(2)]
    return pools, [*laws, Law(constant(2.0))]


def test_items_stored_on_a_lost_node_are_regenerated() -> None:
    pools, laws = slow_end()
    calm, _ = run(pools, laws, lose_at=None)
    wild, _ = run(pools, laws, lose_at=8.0)
    assert sorted(wild.results) == sorted(calm.results)
    again = [entry for _, entry in wild.log if isinstance(entry, RunBatch) and entry.again]
    # 'clean' has to run again, but its input was consumed, so 'read' runs before it.
    assert {entry.items[0][0] for entry in again} == {"0", "1"}


def test_a_batch_of_several_items_keeps_its_items_after_a_loss() -> None:
    pools, laws = slow_end()
    pools[2] = PoolSpec("slow", batch_size=3)
    calm, _ = run(pools, laws, lose_at=None)
    for moment in (2.0, 4.0, 6.0, 9.0):
        wild, _ = run(pools, laws, lose_at=moment)
        assert sorted(wild.results) == sorted(calm.results)
        taken = [
            {entry.items for _, entry in trace.log if isinstance(entry, RunBatch) and entry.items[0].startswith("2/")}
            for trace in (calm, wild)
        ]
        assert taken[0] == taken[1]


def test_the_credit_of_lost_items_is_released() -> None:
    pools, laws = slow_end()
    _, scheduler = run(pools, laws, lose_at=6.0)
    assert scheduler.credits.held == 0


def test_a_stage_that_does_not_reproduce_its_output_ends_the_run_and_is_named() -> None:
    pools, laws = slow_end()
    calls: dict[tuple[int, ...], int] = {}

    def fan_out(order: tuple[int, ...]) -> int:
        calls[order] = calls.get(order, 0) + 1
        return 1 if calls[order] == 1 else 0

    laws[1] = Law(constant(0.1), fan_out, output_bytes=lambda _: 10)
    _, scheduler = run(pools, laws, lose_at=6.0)
    assert scheduler.fatal is not None
    assert "pool 'clean' did not make it again" in scheduler.fatal


def test_a_node_on_which_every_worker_dies_is_quarantined() -> None:
    """Workers die on 'b' only; 'a' does all the work, and no row is given up."""

    def shoot(simulation: Simulation) -> None:
        for moment in range(1, 200):
            simulation.at(moment / 4, lambda: simulation.kill_on("b"))

    pools, laws = [PoolSpec("work", Resources(cpus=2))], [Law(constant(1.0))]
    trace, scheduler = simulate(pools, laws, TWO_NODES, 30, Settings(memory_budget=10**6), before=shoot, record=True)
    assert scheduler.state.quarantined == ["b"]
    assert len(trace.results) == 30
    assert trace.dead == []
