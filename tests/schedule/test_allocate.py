"""The allocation of workers is optimal, independent of the order of pools, and never worse with more machines."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_pack import fits_by_trying_everything, named, small_nodes

from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.resources import Resources
from penstock.schedule.allocate import Demand, allocate, fluid_speed

modest = settings(max_examples=100, deadline=None, derandomize=True)

needs = st.sampled_from(
    [Resources(), Resources(cpus=2), Resources(cpus=0.5, gpus=0.3), Resources(cpus=0.5, gpus=0.6),
     Resources(cpus=0.5, gpus=1), Resources(cpus=0.5, gpu_memory_gb=20)]
)  # fmt: skip
demands = st.lists(
    st.builds(
        Demand,
        needs,
        st.sampled_from([0.5, 1.0, 2.0, 3.0]),
        st.sampled_from([1.0, 2.0, 5.0, 10.0]),
        least=st.just(1),
        most=st.sampled_from([None, None, None, 2]),
    ),
    min_size=1,
    max_size=3,
)


def best_speed(asked: list[Demand], cluster: Cluster) -> float | None:
    """Try every combination of worker counts."""
    best = None
    ranges = []
    for demand in asked:
        most = next(n for n in itertools.count(1) if not fits_by_trying_everything(cluster, [demand.need] * n)) - 1
        ranges.append(range(demand.least, min(most, demand.most or most) + 1))
    for counts in itertools.product(*ranges):
        speed = min(demand.speed(count) for demand, count in zip(asked, counts, strict=True))
        if best is None or speed > best:
            workers = [demand.need for demand, count in zip(asked, counts, strict=True) for _ in range(count)]
            hardest_first = sorted(workers, key=lambda need: (-need.gpus, -need.gpu_memory_gb, -need.cpus))
            if fits_by_trying_everything(cluster, hardest_first):
                best = speed
    return best


@settings(modest, max_examples=60)
@given(demands, small_nodes)
def test_the_plan_is_as_fast_as_the_best_of_all_plans(asked: list[Demand], nodes: list[Node]) -> None:
    cluster = named([replace(node, cpus=min(node.cpus, 2), gpus=node.gpus[:2]) for node in nodes])
    allocation = allocate(asked, cluster)
    expected = best_speed(asked, cluster)
    assert (None if allocation is None else allocation.speed) == pytest.approx(expected)


@modest
@given(demands, small_nodes)
def test_more_machines_and_faster_workers_never_hurt(asked: list[Demand], nodes: list[Node]) -> None:
    before = allocate(asked, named(nodes))
    if before is None:
        return
    more = allocate(asked, named([*nodes, Node("", 2, 16.0, (Gpu(80),))]))
    faster = allocate([replace(asked[0], rate=(asked[0].rate or 0) * 1.5), *asked[1:]], named(nodes))
    assert more is not None
    assert faster is not None
    assert min(more.speed, faster.speed) >= before.speed - 1e-12


@modest
@given(demands, small_nodes, st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_pools(asked: list[Demand], nodes: list[Node], chance: object) -> None:
    order = list(range(len(asked)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    one = allocate(asked, named(nodes))
    other = allocate([asked[i] for i in order], named(nodes))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert other.speed == one.speed
        assert other.workers == tuple(one.workers[i] for i in order)


@modest
@given(demands, small_nodes)
def test_no_plan_is_faster_than_the_fluid_bound_nor_far_below_it(asked: list[Demand], nodes: list[Node]) -> None:
    cluster = named(nodes)
    allocation = allocate(asked, cluster)
    if allocation is not None:
        assert allocation.speed <= fluid_speed(asked, cluster) * (1 + 1e-9)


def test_on_a_large_cluster_rounding_costs_at_most_one_worker_per_pool() -> None:
    """The second theorem of the design, for shapes that divide each other."""
    cluster = Cluster(tuple(Node(f"n{i}", 128, 1000, (Gpu(80),) * 8) for i in range(100)))
    shapes = [
        Resources(cpus=1),
        Resources(cpus=2),
        Resources(gpus=0.25),
        Resources(gpus=0.5),
        Resources(gpus=1),
        Resources(gpus=4),
    ]
    asked = [Demand(shape, 0.5 + i, 1e5 * (1 + i % 3)) for i, shape in enumerate(shapes)]
    allocation = allocate(asked, cluster)
    assert allocation is not None
    one_each = sum(min(4.0, shape.gpus) for shape in shapes)
    assert allocation.efficiency >= 1 - one_each / 800


def test_two_stages_divide_126_cores_in_proportion_to_task_times() -> None:
    machine = Cluster((Node("a", 126, 64),))
    allocation = allocate([Demand(Resources(), 1 / 0.17, 1000), Demand(Resources(), 1 / 0.21, 1000)], machine)
    assert allocation is not None
    assert allocation.workers == (56, 70)


def test_there_is_no_plan_if_the_minimum_workers_do_not_fit() -> None:
    machine = Cluster((Node("a", 4, 64, (Gpu(80),)),))
    assert allocate([Demand(Resources(gpus=1), 1, 10), Demand(Resources(gpus=1), 1, 10)], machine) is None


def test_no_pool_gets_more_workers_than_it_has_work_for() -> None:
    machine = Cluster((Node("a", 1000, 64),))
    allocation = allocate([Demand(Resources(), 1, 10, most=10), Demand(Resources(), 5, 10, most=10)], machine)
    assert allocation is not None
    assert allocation.workers == (10, 2)


def test_an_unmeasured_pool_keeps_its_minimum_number_of_workers() -> None:
    machine = Cluster((Node("a", 10, 64),))
    allocation = allocate([Demand(Resources(), None, 10), Demand(Resources(), 1, 10)], machine)
    assert allocation is not None
    assert allocation.workers == (1, 9)
    nothing = allocate([Demand(Resources(), None, 10)], machine)
    assert nothing is not None
    assert (nothing.workers, nothing.speed, nothing.bottleneck) == ((1,), inf, None)
