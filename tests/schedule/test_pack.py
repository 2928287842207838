"""Packing of workers onto machines, checked by adding up the placements and by exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from run_checker import Usage, check_placement

from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.resources import Resources
from penstock.schedule.nodes import Nodes, Placement
from penstock.schedule.pack import Space, packs

modest = settings(max_examples=100, deadline=None, derandomize=True)

NEEDS = (
    Resources(cpus=0.5),
    Resources(cpus=2),
    Resources(memory_gb=6.0),
    Resources(cpus=0.1, gpus=0.3),
    Resources(cpus=0.1, gpus=0.4),
    Resources(cpus=0.1, gpus=0.6),
    Resources(cpus=0.1, gpus=0.25),
    Resources(cpus=0.1, gpus=1),
    Resources(cpus=0.1, gpus=2),
    Resources(cpus=0.1, gpu_memory_gb=20.0),
    Resources(cpus=0.1, gpu_memory_gb=50.0),
)
small_nodes = st.lists(
    st.builds(
        lambda cpus, gpus: Node("", cpus, 16.0, tuple(Gpu(memory) for memory in gpus)),
        st.sampled_from([1, 2, 4]),
        st.lists(st.sampled_from([24, 80]), max_size=3),
    ),
    min_size=1,
    max_size=2,
)


def named(nodes: Sequence[Node]) -> Cluster:
    return Cluster(tuple(Node(f"n{i}", node.cpus, node.memory_gb, node.gpus) for i, node in enumerate(nodes)))


def fits_by_trying_everything(cluster: Cluster, workers: Sequence[Resources]) -> bool:
    """Try every worker on every GPU of every node, by addition alone."""
    state = [(node.cpus, node.memory_gb, tuple(1.0 for _ in node.gpus)) for node in cluster.nodes]

    def try_from(position: int) -> bool:
        if position == len(workers):
            return True
        need = workers[position]
        for i, node in enumerate(cluster.nodes):
            cpus, memory, shares = before = state[i]
            if need.cpus > cpus + 1e-9 or (need.memory_gb or 0) > memory + 1e-9:
                continue
            for after in ways(need, node, shares):
                state[i] = (cpus - need.cpus, memory - (need.memory_gb or 0), after)
                if try_from(position + 1):
                    return True
                state[i] = before
        return False

    def ways(need: Resources, node: Node, shares: tuple[float, ...]) -> list[tuple[float, ...]]:
        if not need.requires_gpu:
            return [shares]
        if need.gpus > 1:
            whole = [g for g, share in enumerate(shares) if share > 1 - 1e-9][: int(need.gpus)]
            taken = tuple(0.0 if g in whole else share for g, share in enumerate(shares))
            return [taken] if len(whole) == need.gpus else []
        found = []
        for g, share in enumerate(shares):
            wanted = need.gpu_memory_gb / node.gpus[g].memory_gb if need.gpu_memory_gb else need.gpus
            if wanted <= share + 1e-9:
                found.append((*shares[:g], share - wanted, *shares[g + 1 :]))
        return found

    return try_from(0)


@modest
@given(small_nodes, st.lists(st.sampled_from(NEEDS), max_size=6))
def test_packing_agrees_with_exhaustive_search(nodes: list[Node], workers: list[Resources]) -> None:
    cluster = named(nodes)
    assert packs(cluster, [(need, 1) for need in workers]) == fits_by_trying_everything(cluster, workers)


@modest
@given(small_nodes, st.lists(st.sampled_from(NEEDS), max_size=8))
def test_placements_pass_an_independent_check(nodes: list[Node], workers: list[Resources]) -> None:
    cluster = named(nodes)
    usage = {node.name: Usage(node) for node in cluster.nodes}
    places = Nodes(cluster).place_all([(need, 1) for need in workers])
    for need, found in zip(workers, places, strict=True):
        for placement in found:
            check_placement(need, placement)
            usage[placement.node].add(need, placement, 1)
            usage[placement.node].check()
    if packs(cluster, [(need, 1) for need in workers]):
        assert all(places), "workers that fit were not placed"


@modest
@given(small_nodes, st.lists(st.sampled_from(NEEDS), max_size=8), st.randoms(use_true_random=False))
def test_releasing_workers_restores_the_free_resources_exactly(
    nodes: list[Node], workers: list[Resources], chance: object
) -> None:
    cluster = named(nodes)
    machines = Nodes(cluster)
    placed = [(need, place) for need in workers if (place := machines.place(need)) is not None]
    chance.shuffle(placed)  # type: ignore[attr-defined]
    for need, place in placed:
        machines.release(need, place)
    assert machines.space() == Space.of(cluster)


def test_a_thousand_equal_nodes_are_one_group() -> None:
    cluster = Cluster(tuple(Node(f"n{i}", 128, 1000, (Gpu(80),) * 8) for i in range(1000)))
    space = Space.of(cluster)
    assert space.place(Resources(gpus=1), 7_999) == 7_999
    assert len(space.groups) == 2
    assert space.room_for(Resources(gpus=1)) == 1


def test_cpu_workers_are_placed_on_nodes_without_gpus_first() -> None:
    machines = Nodes(Cluster((Node("gpu", 8, 64, (Gpu(80),)), Node("cpu", 8, 64))))
    assert machines.place(Resources()) == Placement("cpu")


def test_a_gpu_share_is_relative_to_the_gpu_of_the_worker() -> None:
    """20 GB are a quarter of one device and most of the other, so different numbers of workers fit on them."""
    cluster = Cluster((Node("a", 8, 64, (Gpu(80), Gpu(24))),))
    assert packs(cluster, [(Resources(gpu_memory_gb=20), 5)])
    assert not packs(cluster, [(Resources(gpu_memory_gb=20), 6)])
    assert not packs(cluster, [(Resources(gpu_memory_gb=50), 2)])


def test_shares_are_never_rounded() -> None:
    cluster = Cluster((Node("a", 64, 64, (Gpu(80),)),))
    assert packs(cluster, [(Resources(cpus=1, gpus=0.03), 33)])
    assert not packs(cluster, [(Resources(cpus=1, gpus=0.03), 34)])


def test_a_place_is_taken_only_if_it_is_free() -> None:
    machines = Nodes(Cluster((Node("a", 2, 8, (Gpu(80), Gpu(80))),)))
    assert machines.take(Resources(gpus=0.6), Placement("a", (1,)))
    assert not machines.take(Resources(gpus=0.6), Placement("a", (1,)))
    assert not machines.take(Resources(), Placement("elsewhere"))
    assert machines.take(Resources(gpus=1), Placement("a", (0,)))
