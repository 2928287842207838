"""Forecast the time of a run on any cluster, by simulating the real scheduler with scaled-down numbers.

Equal machines behave alike, so a thousand nodes are simulated as ten with a hundredth of the work. Many consecutive
items are simulated as one large item, so that millions cost no more than thousands. The result is scaled back to the
full size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd, inf

from penstock.backends.simulated.cluster_text import write_kind
from penstock.backends.simulated.law import Law, Order, constant
from penstock.backends.simulated.simulate import simulate
from penstock.backends.simulated.trace import Trace
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.resources import Resources
from penstock.schedule.allocate import Demand, allocate, fluid_speed
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.staffing import PlanRecord
from penstock.schedule.state import PoolSpec, Settings

# The number of simulated nodes and items that is enough to represent thousands and millions.
_MIN_SIMULATED_NODES = 10
_SIMULATED_ITEMS = 12_000
_BUDGET_SHARE_OF_MEMORY = 0.3


@dataclass(frozen=True)
class PoolModel:
    """The behaviour of one pool, per item."""

    name: str
    need: Resources
    seconds: float
    # Output items per input item, and the bytes of each.
    fan_out: float = 1.0
    output_bytes: float = 0.0
    batch_size: int = 1
    workers: int | None = None
    start_up: float = 0.0
    barrier: bool = False


@dataclass(frozen=True)
class PoolForecast:
    """The forecast of one pool."""

    name: str
    items: float
    # The number of workers in the plan that is active for the longest time.
    workers: int
    busy_seconds: float


@dataclass(frozen=True)
class Forecast:
    """The forecast of a run."""

    seconds: float
    pools: tuple[PoolForecast, ...]
    # The share of time in which each resource is busy.
    busy: Mapping[str, float]
    bottleneck: str
    bound_by: str
    # The share of the throughput that would be possible with fractional workers.
    efficiency: float
    peak_bytes: float
    budget_bytes: float
    # The number of outputs that are spilled to disk because the budget is used up.
    spilled: int
    starts: int


def items_per_pool(models: Sequence[PoolModel], items: float) -> list[float]:
    """Return the number of input items of each pool."""
    counts = [float(items)]
    for model in models[:-1]:
        counts.append(counts[-1] * model.fan_out)
    return counts


def forecast(models: Sequence[PoolModel], cluster: Cluster, items: int, budget: int | None = None) -> Forecast:
    """Simulate a run of ``items`` source items, and return the forecast.

    >>> machine = Cluster((Node("here", cpus=4, memory_gb=16),))
    >>> done = forecast([PoolModel("read", Resources(), 1.0), PoolModel("clean", Resources(), 3.0)], machine, 400)
    >>> f"{done.seconds:.0f} s, bound by '{done.bottleneck}' on {done.bound_by}"
    "403 s, bound by 'clean' on CPUs"
    """
    budget = budget or int(_BUDGET_SHARE_OF_MEMORY * 1e9 * sum(node.memory_gb for node in cluster.nodes))
    counts = items_per_pool(models, items)
    # A single task that lists the input cannot be scaled down: its time is added.
    first = 1 if items == 1 and len(models) > 1 else 0
    listing = sum(model.start_up + model.seconds for model in models[:first])
    trace, scheduler, scale = _run(models[first:], cluster, counts[first:], budget)
    wall = trace.finished_at + listing
    busy = [model.seconds for model in models[:first]]
    busy += [trace.busy_seconds.get(i, 0.0) * scale for i in range(len(models) - first)]
    workers = [*[1] * first, *(count * scale for count in _longest_plan(scheduler.plans, trace.finished_at))]
    fluid = fluid_speed(_demands(models, counts), cluster)
    bottleneck, bound_by = _bound(models, counts, cluster)
    return Forecast(
        seconds=wall,
        pools=tuple(
            PoolForecast(model.name, count, min(have, model.workers or have), seconds)
            for model, count, have, seconds in zip(models, counts, workers or [0] * len(models), busy, strict=True)
        ),
        busy=_busy_shares(models, busy, cluster, wall),
        bottleneck=bottleneck,
        bound_by=bound_by,
        efficiency=min(1.0, 1 / fluid / wall) if 0 < fluid < inf and wall else 1.0,
        peak_bytes=scheduler.credits.peak * scale,
        budget_bytes=budget,
        spilled=scheduler.credits.spilled * scale,
        starts=trace.starts * scale + first,
    )


def one_more(models: Sequence[PoolModel], cluster: Cluster, items: int, now: Forecast) -> dict[str, float]:
    """Return the seconds of a run with one more node of each kind, and with one more GPU."""
    counts = items_per_pool(models, items)
    before = allocate(_demands(models, counts), cluster)
    seconds = {}
    for what, larger in _larger(cluster).items():
        after = allocate(_demands(models, counts), larger)
        if before is None or after is None:  # pools take turns: there is no plan to compare
            seconds[what] = forecast(models, larger, items, int(now.budget_bytes)).seconds
        else:
            # The effect of one node in a thousand is below the precision of a simulation, so plans are compared.
            working = min(now.seconds, 1 / before.speed if 0 < before.speed < inf else 0.0)
            seconds[what] = now.seconds - working * (1 - before.speed / after.speed)
    return seconds


def _run(
    models: Sequence[PoolModel], cluster: Cluster, counts: Sequence[float], budget: int
) -> tuple[Trace, Scheduler, int]:
    """Simulate with scaled-down numbers; return also the factor by which the nodes were scaled."""
    scale = _node_scale(cluster, counts[0])
    lumps = [max(1, round(count / scale / _SIMULATED_ITEMS)) for count in counts]
    specs, laws = [], []
    for i, (model, lump) in enumerate(zip(models, lumps, strict=True)):
        next_lump = lumps[i + 1] if i + 1 < len(lumps) else 1
        fan_out = model.fan_out * lump / next_lump if i + 1 < len(lumps) else 1.0
        seconds, workers = model.seconds * lump, None
        if model.workers is not None:  # scaled down, it may not be a whole number
            workers = max(1, round(model.workers / scale))
            seconds *= workers * scale / model.workers
        # One merged item must not fill the budget that many small items would share.
        size = int(min(model.output_bytes * next_lump, budget / scale / (20 * len(models))))
        batch_size = max(1, round(model.batch_size / lump))
        specs.append(PoolSpec(
            model.name, model.need, batch_size, workers, model.barrier,
            expected_seconds=seconds, expected_fan_out=fan_out,
        ))  # fmt: skip
        laws.append(Law(constant(seconds), _dithered(fan_out), _always(size), start_up=model.start_up))
    number = max(1, round(counts[0] / scale / lumps[0])) if counts[0] else 0
    settings = Settings(memory_budget=max(1, budget // scale))
    trace, scheduler = simulate(specs, laws, _every_nth(cluster, scale), number, settings)
    return trace, scheduler, scale


def _node_scale(cluster: Cluster, items: float) -> int:
    """Return the largest divisor of the count of every kind of node that leaves enough nodes and items."""
    kinds = Counter((node.cpus, node.memory_gb, node.gpus) for node in cluster.nodes)
    common = gcd(*kinds.values())
    divisors = [d for d in range(1, common + 1) if common % d == 0 and len(cluster.nodes) // d >= _MIN_SIMULATED_NODES]
    return max((d for d in divisors if items >= d * _SIMULATED_ITEMS), default=1)


def _every_nth(cluster: Cluster, scale: int) -> Cluster:
    seen: Counter[tuple[float, float, tuple[Gpu, ...]]] = Counter()
    kept: list[Node] = []
    for node in cluster.nodes:
        kind = (node.cpus, node.memory_gb, node.gpus)
        if seen[kind] % scale == 0:
            kept.append(node)
        seen[kind] += 1
    return Cluster(tuple(kept))


def _always(size: int) -> Callable[[Order], int]:
    return lambda order: size


def _dithered(mean: float) -> Callable[[Order], int]:
    """Return a function that yields whole numbers whose running mean is ``mean``."""
    total, given = 0.0, 0

    def fan_out(order: Order) -> int:
        nonlocal total, given
        total += mean
        now = int(total + 1e-9) - given
        given += now
        return now

    return fan_out


def _larger(cluster: Cluster) -> dict[str, Cluster]:
    larger = {}
    for kind, node in {write_kind(node): node for node in cluster.nodes}.items():
        larger[f"node ({kind})"] = Cluster((*cluster.nodes, replace(node, name="one more")))
    i = next((i for i, node in enumerate(cluster.nodes) if node.gpus), None)
    if i is not None:
        node, gpu = cluster.nodes[i], cluster.nodes[i].gpus[0]
        with_gpu = replace(node, gpus=(*node.gpus, gpu))
        larger[f"GPU ({gpu.name}-{gpu.memory_gb:g})"] = Cluster((*cluster.nodes[:i], with_gpu, *cluster.nodes[i + 1 :]))
    return larger


def _demands(models: Sequence[PoolModel], counts: Sequence[float]) -> list[Demand]:
    return [
        Demand(
            model.need,
            1 / model.seconds if model.seconds > 0 else None,
            count,
            least=1 if count else 0,
            most=min(ceil(count / model.batch_size), model.workers or ceil(count)) if count else 0,
        )
        for model, count in zip(models, counts, strict=True)
    ]


def _longest_plan(plans: Sequence[PlanRecord], wall: float) -> tuple[int, ...]:
    applied = [plan for plan in plans if plan.applied]
    ends = [*(plan.at for plan in applied[1:]), wall]
    return max(((end - plan.at, plan.workers) for plan, end in zip(applied, ends, strict=False)), default=(0.0, ()))[1]


def _busy_shares(models: Sequence[PoolModel], busy: Sequence[float], cluster: Cluster, wall: float) -> dict[str, float]:
    used: dict[str, float] = dict.fromkeys(_capacity(cluster), 0.0)
    for model, seconds in zip(models, busy, strict=True):
        for name, amount in _amounts(model.need, cluster).items():
            used[name] += amount * seconds
    return {name: used[name] / (have * wall) if wall else 0.0 for name, have in _capacity(cluster).items() if have}


def _bound(models: Sequence[PoolModel], counts: Sequence[float], cluster: Cluster) -> tuple[str, str]:
    """Return the slowest pool, and what limits it: a resource that is used up, or its fixed number of workers."""
    work = [model.seconds * count for model, count in zip(models, counts, strict=True)]
    use = {
        name: [_amounts(m.need, cluster)[name] * seconds / have for m, seconds in zip(models, work, strict=True)]
        for name, have in _capacity(cluster).items()
        if have
    }
    resource = max(use, key=lambda name: sum(use[name]))
    alone = [seconds / model.workers if model.workers else 0.0 for model, seconds in zip(models, work, strict=True)]
    if max(alone) > sum(use[resource]):
        narrow = models[alone.index(max(alone))]
        return narrow.name, "its one worker" if narrow.workers == 1 else f"its {narrow.workers} workers"
    return models[use[resource].index(max(use[resource]))].name, resource


def _capacity(cluster: Cluster) -> dict[str, float]:
    return {
        "GPUs": float(sum(len(node.gpus) for node in cluster.nodes)),
        "CPUs": float(sum(node.cpus for node in cluster.nodes)),
    }


def _amounts(need: Resources, cluster: Cluster) -> dict[str, float]:
    largest = max((gpu.memory_gb for node in cluster.nodes for gpu in node.gpus), default=1.0)
    return {"GPUs": need.gpu_share(largest), "CPUs": need.cpus}
