"""``penstock simulate``: estimate how long a pipeline takes on another cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.options import debug_option
from penstock.cli.shown import echo

if TYPE_CHECKING:
    from penstock.backends.simulated.forecast import Forecast, PoolModel
    from penstock.core.cluster import Cluster

_PRICED = ("gpu", "cpu", "node")


@click.command("simulate")
@click.argument("source", metavar="RECIPE|RUN.json")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--cluster", metavar="TEXT", help='Machines, such as "4x(8xH100-80,128cpu,1TB)".  [default: this one]')
@click.option("--items", type=click.IntRange(min=1), help="Number of source tasks.  [default: as in the run or recipe]")
@click.option("--seconds", multiple=True, metavar="POOL=S", help="Seconds per task and worker.")
@click.option("--fan-out", multiple=True, metavar="POOL=N", help="Output tasks per input task.  [default: 1]")
@click.option("--bytes", "sizes", multiple=True, metavar="POOL=SIZE", help="Size of one output task.")
@click.option("--start-up", multiple=True, metavar="POOL=S", help="Seconds to start a worker.")
@click.option(
    "--memory-budget", metavar="SIZE", help="Memory for tasks between pools.  [default: 30% of the cluster's]"
)
@click.option("--price", multiple=True, metavar="WHAT=P", help="Price per hour of a gpu, a cpu or a node.")
@debug_option
def command(
    source: str,
    overrides: tuple[str, ...],
    cluster: str | None,
    items: int | None,
    seconds: tuple[str, ...],
    fan_out: tuple[str, ...],
    sizes: tuple[str, ...],
    start_up: tuple[str, ...],
    memory_budget: str | None,
    price: tuple[str, ...],
) -> None:
    """Estimate how long a recipe or an earlier run takes on a cluster.

    Runs the real scheduler in virtual time. RUN.json is the summary.json of an earlier run; it contains the measured
    time per task of each pool. For a recipe, give these times with --seconds. `penstock plan` shows the names of the
    pools; an unambiguous prefix of a name is enough.

    \b
    Examples:
      penstock simulate clean/_penstock/summary.json
      penstock simulate run.json --cluster "4x(8xH100-80,128cpu,1TB)"
      penstock simulate run.json --items 100000 --price gpu=2.5 \\
        --cluster "2x(8xA100-40,96cpu,768GB),(64cpu,256GB)"
      penstock simulate video.yaml --cluster "16x(8xL40S-48,96cpu,768GB)" \\
        --seconds read=0.2 --seconds embed=1.5
    """
    from penstock.backends.simulated.forecast import forecast, one_more

    machines = _cluster(cluster)
    number: int | None
    if source.endswith(".json"):
        if overrides:
            raise click.UsageError(f"'{overrides[0]}' changes a recipe, but {source} is an earlier run.")
        models, number = _from_run(source)
    else:
        models, number = _from_recipe(source, overrides, machines)
    models = _with_options(models, seconds, fan_out, sizes, start_up)
    models, begin_with = _with_items(models, number, items)
    _check(models, machines)
    prices = _prices(price)
    budget = None if memory_budget is None else _size("--memory-budget", memory_budget)
    result = forecast(models, machines, begin_with, budget)
    for line in _report(result, models, machines, prices, one_more(models, machines, begin_with, result)):
        echo(line)


def _cluster(text: str | None) -> Cluster:
    from penstock.backends.simulated.cluster_text import parse_cluster
    from penstock.runtime.machine import this_machine

    try:
        return this_machine() if text is None else parse_cluster(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--cluster") from None


def _from_run(path: str) -> tuple[list[PoolModel], int]:
    """Return the pools and the number of source tasks that an earlier run measured."""
    from penstock.backends.simulated.forecast import PoolModel
    from penstock.core.resources import Resources

    try:
        run = json.loads(Path(path).read_text(encoding="utf-8"))
        pools = run["pools"]
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise click.UsageError(
            f"{path}: expected the summary.json of a run with a streaming executor, which lists its 'pools'."
        ) from None
    models = []
    for pool in pools:
        try:
            entered = max(pool["items_in"], 1)
            models.append(
                PoolModel(
                    pool["name"],
                    Resources(**pool["resources"]),
                    pool["busy_seconds"] / entered,
                    pool["items_out"] / entered,
                    pool["output_bytes"] / max(pool["items_out"], 1),
                    pool["batch_size"],
                    pool.get("workers"),
                    pool.get("start_up_seconds") or 0.0,
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise click.UsageError(f"{path}: pool {pool!r:.80} cannot be read: {error}.") from None
    if not models:
        raise click.UsageError(f"{path}: the run had no pools.")
    return models, pools[0]["items_in"]


def _from_recipe(recipe: str, overrides: Sequence[str], cluster: Cluster) -> tuple[list[PoolModel], int | None]:
    """Plan a recipe for the cluster; the time per task is left open (-1) for ``--seconds``."""
    from penstock.backends.simulated.forecast import PoolModel
    from penstock.executors.planning import plan_pipeline
    from penstock.recipe.recipe import load_recipe

    plan = plan_pipeline(load_recipe(recipe, overrides).pipeline, cluster)
    tasks = sum(source.tasks for source in plan.sources)
    models = [
        PoolModel(
            pool.name,
            pool.resources,
            # A source only lists its input; the time of every other pool must be given.
            seconds=0.0 if position == 0 and plan.sources else -1.0,
            fan_out=tasks if position == 0 and plan.sources else 1.0,
            batch_size=pool.batch_size,
            workers=pool.num_workers,
            barrier=any(stage.is_barrier for stage in pool.stages),
        )
        for position, pool in enumerate(plan.pools)
    ]
    return models, 1 if plan.sources else None


def _with_options(
    models: list[PoolModel],
    seconds: Sequence[str],
    fan_out: Sequence[str],
    sizes: Sequence[str],
    start_up: Sequence[str],
) -> list[PoolModel]:
    from dataclasses import replace

    names = [model.name for model in models]
    changes: dict[str, dict[str, float]] = {name: {} for name in names}
    for option, field, given in (("--seconds", "seconds", seconds), ("--fan-out", "fan_out", fan_out),
                                 ("--start-up", "start_up", start_up)):  # fmt: skip
        for pool, value in _pairs(option, given):
            changes[_pool(option, pool, names)][field] = _number(option, value)
    for pool, value in _pairs("--bytes", sizes):
        changes[_pool("--bytes", pool, names)]["output_bytes"] = _size("--bytes", value)
    changed = [replace(model, **changes[model.name]) for model in models]  # type: ignore[arg-type]
    unknown = [model.name for model in changed if model.seconds < 0]
    if unknown:
        missing = " ".join(f"--seconds '{name}'=…" for name in unknown)
        raise click.UsageError(f"the time per task is unknown for {', '.join(unknown)}. Add: {missing}")
    return changed


def _with_items(models: list[PoolModel], number: int | None, items: int | None) -> tuple[list[PoolModel], int]:
    """Return the models and the number of source tasks, changed to ``items`` if that is given."""
    from dataclasses import replace

    if items is None:
        if number is None:
            raise click.UsageError("the recipe does not determine the number of tasks. Add: --items N")
        return models, number
    if number == 1 and len(models) > 1:
        return [replace(models[0], fan_out=float(items)), *models[1:]], 1
    return models, items


def _check(models: Sequence[PoolModel], cluster: Cluster) -> None:
    for model in models:
        reason = cluster.why_not(model.need)
        if reason is not None:
            raise click.UsageError(f"a worker of '{model.name}' needs {model.need}, which fits on no node: {reason}.")


def _prices(given: Sequence[str]) -> dict[str, float]:
    prices = {}
    for what, value in _pairs("--price", given):
        if what not in _PRICED:
            raise click.BadParameter(
                f"'{what}' cannot have a price; expected one of {', '.join(_PRICED)}.", param_hint="--price"
            )
        prices[what] = _number("--price", value)
    return prices


def _pairs(option: str, given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in given:
        name, separator, value = text.rpartition("=")
        if not separator or not name:
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE.", param_hint=option)
        yield name, value


def _pool(option: str, name: str, names: Sequence[str]) -> str:
    """Find a pool by its name or by an unambiguous prefix of it."""
    from penstock.errors import suggestion

    if name in names:
        return name
    alike = [known for known in names if known.startswith(name)]
    if len(alike) == 1:
        return alike[0]
    which = f"{len(alike)} pools begin with '{name}'" if alike else f"there is no pool '{name}'"
    raise click.BadParameter(f"{which}; there are {', '.join(names)}.{suggestion(name, names)}", param_hint=option)


def _number(option: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise click.BadParameter(f"{value!r} is not a number that is 0 or more.", param_hint=option)
    return number


def _size(option: str, value: str) -> int:
    from penstock.core.sizes import parse_bytes

    try:
        return parse_bytes(value)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _report(
    result: Forecast,
    models: Sequence[PoolModel],
    cluster: Cluster,
    prices: Mapping[str, float],
    more: Mapping[str, float],
) -> Iterator[str]:
    from penstock.core.sizes import human_bytes, plural

    yield f"On {cluster}:"
    share = f"{result.efficiency:.0%} of what these machines could do at best"
    yield f"  wall time   {_duration(result.seconds)}  ({share})"
    yield f"  bound by    '{result.bottleneck}' on {result.bound_by}"
    yield f"  busy        {', '.join(f'{name} {share:.0%}' for name, share in result.busy.items())}"
    spilled = f", {plural(result.spilled, 'task')} spilled to disk" if result.spilled else ""
    yield f"  bytes       at most {human_bytes(result.peak_bytes)} of {human_bytes(result.budget_bytes)}{spilled}"
    if prices:
        yield f"  cost        {_cost(cluster, prices, result.seconds):,.2f}"
    width = max(len("pool"), *(len(pool.name) for pool in result.pools))
    yield ""
    yield f"  {'pool':<{width}}  {'tasks':>15}  {'seconds each':>12}  {'workers':>8}  {'busy':>5}"
    for pool, model in zip(result.pools, models, strict=True):
        busy = pool.busy_seconds / (pool.workers * result.seconds) if pool.workers and result.seconds else 0.0
        yield (
            f"  {pool.name:<{width}}  {pool.items:>15,.0f}  {model.seconds:>12.4g}  {pool.workers:>8,}  "
            f"{min(busy, 1.0):>5.0%}"
        )
    yield ""
    for what, seconds in more.items():
        change = 1 - seconds / result.seconds if result.seconds else 0.0
        yield f"  one more {what}: {_duration(seconds)}, {f'{change:.1%} less' if change >= 0.0005 else 'no gain'}"


def _cost(cluster: Cluster, prices: Mapping[str, float], seconds: float) -> float:
    amounts = {
        "gpu": sum(len(node.gpus) for node in cluster.nodes),
        "cpu": sum(node.cpus for node in cluster.nodes),
        "node": len(cluster.nodes),
    }
    return seconds / 3600 * sum(price * amounts[what] for what, price in prices.items())


def _duration(seconds: float) -> str:
    """Return a duration as text.

    >>> _duration(5.25), _duration(754), _duration(93784)
    ('5.2 s', '12 min 34 s', '26 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"
