"""The simulator in virtual time carries out actions, and forecasts agree with arithmetic."""

from __future__ import annotations

import pytest

from penstock.backends.simulated.cluster_text import parse_cluster
from penstock.backends.simulated.forecast import PoolModel, forecast, one_more
from penstock.backends.simulated.law import Law, constant
from penstock.backends.simulated.simulate import simulate
from penstock.backends.simulated.simulation import Simulation
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.resources import Resources
from penstock.schedule.actions import DropItems, GrantCredit, KillWorker, RunBatch, StartWorker, StopWorker
from penstock.schedule.events import BatchDone, CreditWanted, Emitted, Output, WorkerGone, WorkerLost, WorkerReady
from penstock.schedule.nodes import Placement
from penstock.schedule.state import PoolSpec, Settings


def one_worker(*laws: Law) -> Simulation:
    simulation = Simulation(laws)
    simulation.add_items([Output("a", (0, 0), 0), Output("b", (0, 1), 0)])
    simulation.carry_out(StartWorker("w", 0, Placement("n")))
    return simulation


def test_simulated_worker_starts_works_and_stops_on_schedule() -> None:
    simulation = one_worker(Law(constant(2.0), start_up=5.0, stop=1.0))
    assert simulation.wait(100.0) == [WorkerReady("w")]
    assert simulation.now() == 5.0
    simulation.carry_out(RunBatch("w", 1, ("0/a",), 0))
    assert simulation.wait(6.0) == []
    assert simulation.now() == 6.0
    assert simulation.wait(100.0) == [Emitted("w", 1, (Output("a", (0, 0), 0),)), BatchDone("w", 1, 2.0)]
    simulation.carry_out(StopWorker("w"))
    assert simulation.wait(100.0) == [WorkerGone("w")]
    assert simulation.now() == 8.0


def test_outputs_wait_for_credit_and_take_memory() -> None:
    law = Law(constant(1.0), fan_out=lambda order: 2, output_bytes=lambda order: 10)
    simulation = one_worker(law, Law(constant(1.0)))
    simulation.wait(10.0)
    simulation.carry_out(RunBatch("w", 1, ("0/a",), credit=15))
    emitted, wanted = simulation.wait(10.0)
    assert emitted == Emitted("w", 1, (Output("a_0", (0, 0, 0), 10),))
    assert wanted == CreditWanted("w", 1, 5)
    simulation.carry_out(GrantCredit("w", 1, 5))
    assert simulation.wait(10.0) == [Emitted("w", 1, (Output("a_1", (0, 0, 1), 10),)), BatchDone("w", 1, 1.0)]
    assert simulation.trace.peak_bytes == 20
    simulation.carry_out(DropItems(("1/a_0",)))
    assert simulation.stored_items == 3


def test_spilled_outputs_take_no_memory() -> None:
    simulation = one_worker(Law(constant(1.0), output_bytes=lambda order: 10), Law(constant(1.0)))
    simulation.wait(10.0)
    simulation.carry_out(RunBatch("w", 1, ("0/a",), credit=0))
    assert simulation.wait(10.0) == [CreditWanted("w", 1, 10)]
    simulation.carry_out(GrantCredit("w", 1, 0, spill=True))
    assert simulation.wait(10.0) == [Emitted("w", 1, (Output("a", (0, 0), 0),)), BatchDone("w", 1, 1.0)]
    assert simulation.trace.peak_bytes == 0


def test_killed_worker_sends_no_more_messages_unless_late_results_are_simulated() -> None:
    simulation = one_worker(Law(constant(1.0)))
    simulation.wait(10.0)
    simulation.carry_out(RunBatch("w", 1, ("0/a",), 0))
    simulation.carry_out(KillWorker("w", "too slow"))
    assert simulation.wait(10.0) == [WorkerGone("w")]
    assert simulation.wait(10.0) == []
    late = one_worker(Law(constant(1.0), late_results=True), Law(constant(1.0)))
    late.wait(10.0)
    late.carry_out(RunBatch("w", 1, ("0/a",), 0))
    late.carry_out(KillWorker("w", "too slow"))
    assert [type(event) for event in late.wait(10.0)] == [Emitted, BatchDone, WorkerGone]


def test_poison_kills_and_setup_fails() -> None:
    simulation = one_worker(Law(constant(1.0), poison=lambda order: (0,), setup_fails=lambda attempt: attempt == 2))
    simulation.wait(10.0)
    simulation.carry_out(RunBatch("w", 1, ("0/a", "0/b"), 0))
    [lost] = simulation.wait(10.0)
    assert lost == WorkerLost("w", "died", 0, 2)
    simulation.carry_out(StartWorker("v", 0, Placement("n")))
    assert simulation.wait(10.0) == [WorkerLost("v", "setup failed", None, 0)]


def test_run_that_can_never_end_raises_instead_of_looping() -> None:
    def lose_everything(simulation: Simulation) -> None:
        simulation.at(1.0, lambda: simulation.lose_node("a"))

    trace, scheduler = simulate(
        [PoolSpec("p")], [Law(constant(1.0))], Cluster((Node("a", 1, 8),)), 10, before=lose_everything
    )
    assert scheduler.finished
    assert scheduler.fatal is not None
    assert "nothing has moved for 600 s" in scheduler.fatal
    assert "p: 10 items to do, 0 workers; no worker fits" in scheduler.fatal
    assert trace.finished_at == 601.0


def test_run_without_items_ends_at_once() -> None:
    trace, scheduler = simulate([PoolSpec("p")], [Law(constant(1.0))], Cluster((Node("a", 1, 8),)), 0)
    assert scheduler.finished
    assert trace.starts == 0


MODELS = [
    PoolModel("read", Resources(), 0.05, output_bytes=1e6, start_up=1.0),
    PoolModel("embed", Resources(gpus=1), 0.4, fan_out=0.5, batch_size=8, start_up=40.0),
    PoolModel("caption", Resources(gpus=0.5), 0.2),
]
NODE = Node("n", 128, 1000.0, (Gpu(80, "H100"),) * 8)


def cluster(nodes: int) -> Cluster:
    return Cluster(tuple(Node(f"n{i}", NODE.cpus, NODE.memory_gb, NODE.gpus) for i in range(nodes)))


@pytest.mark.parametrize(("nodes", "items"), [(1, 20_000), (20, 400_000), (1000, 100_000_000)])
def test_forecast_agrees_with_arithmetic_at_any_scale(nodes: int, items: int) -> None:
    result = forecast(MODELS, cluster(nodes), items)
    gpu_seconds = items * (0.4 + 0.5 * 0.5 * 0.2)
    ideal = gpu_seconds / (8 * nodes)
    assert ideal <= result.seconds <= 1.05 * ideal + 45
    assert (result.bottleneck, result.bound_by) == ("embed", "GPUs")
    assert result.busy["GPUs"] == pytest.approx(ideal / result.seconds, rel=0.02)
    assert [pool.items for pool in result.pools] == [items, items, items / 2]
    assert result.peak_bytes <= result.budget_bytes


def test_one_more_gpu_saves_its_share_of_the_time() -> None:
    now = forecast(MODELS, cluster(4), 400_000)
    more = one_more(MODELS, cluster(4), 400_000, now)
    node, gpu = (1 - seconds / now.seconds for seconds in more.values())
    assert node == pytest.approx(1 / 5, abs=0.02)
    assert gpu == pytest.approx(1 / 33, abs=0.02)


def test_fixed_number_of_workers_is_reported_as_the_limit() -> None:
    models = [PoolModel("read", Resources(), 0.1, workers=2), PoolModel("clean", Resources(), 0.1)]
    result = forecast(models, cluster(100), 1_000_000)
    assert (result.bottleneck, result.bound_by) == ("read", "its 2 workers")
    assert result.seconds == pytest.approx(50_000, rel=0.02)
    assert result.pools[0].workers == 2


def test_pools_that_take_turns_on_a_gpu_can_be_forecast() -> None:
    models = [PoolModel("a", Resources(gpus=1), 0.1, output_bytes=1000), PoolModel("b", Resources(gpus=1), 0.1)]
    machine = Cluster((Node("a", 4, 16, (Gpu(80),)),))
    result = forecast(models, machine, 1000)
    assert result.seconds == pytest.approx(200, rel=0.05)
    more = one_more(models, machine, 1000, result)
    assert max(more.values()) < 0.6 * result.seconds


@pytest.mark.parametrize(
    ("text", "nodes", "cpus", "gpus"),
    [
        ("(8cpu,16GB)", 1, 8, 0),
        ("4x(8xH100-80,128cpu,1TB)", 4, 512, 32),
        (" 2 x (2xA100-40GB, 1xL4-24, 16 cpus, 64 GiB) , (1.5cpu,500MB)", 3, 33.5, 6),
    ],
)
def test_text_form_of_a_cluster_is_parsed(text: str, nodes: int, cpus: float, gpus: int) -> None:
    parsed = parse_cluster(text)
    assert len(parsed.nodes) == len({node.name for node in parsed.nodes}) == nodes
    assert sum(node.cpus for node in parsed.nodes) == cpus
    assert sum(len(node.gpus) for node in parsed.nodes) == gpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "it has no nodes"),
        ("0x(8cpu,16GB)", "0 nodes of"),
        ("(8cpu,16GB) (8cpu,16GB)", "expected ',' or the end"),
        ("(8cpu,8cpu,16GB)", "each once"),
        ("(16GB)", "does not state CPUs"),
        ("8cpu,16GB", "expected a kind of node at '8cpu,16GB' (character 1)"),
    ],
)
def test_invalid_cluster_text_is_refused_with_the_position(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match="cluster") as caught:
        parse_cluster(text)
    assert expected in str(caught.value)


def test_pools_that_take_turns_stay_within_the_budget() -> None:
    trace, scheduler = simulate(
        [PoolSpec("a", Resources(gpus=1)), PoolSpec("b", Resources(gpus=1))],
        [Law(constant(0.1), fan_out=lambda order: 50, output_bytes=lambda order: 100), Law(constant(0.01))],
        Cluster((Node("a", 4, 16, (Gpu(80),)),)),
        20,
        Settings(memory_budget=1000),
    )
    assert len(trace.results) == 1000
    assert trace.peak_bytes <= 1000
    assert scheduler.credits.spilled > 0, "fifty outputs do not fit, and the one GPU is in use: some are spilled"
