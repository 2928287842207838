"""Read what stages declare about worker processes: whether they can be reused, and which modules to preload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.plan.plan import Pool


def is_reusable(pool: Pool) -> bool:
    """Tell whether a process that has served a pool can serve another one that is reusable too.

    Only if every stage class declares so itself: what a subclass of the user leaves behind in the process is unknown.
    """
    return not pool.resources.requires_gpu and all(
        vars(type(step)).get("reusable_process", False) for step in pool.steps
    )


def modules_to_preload(pools: Iterable[Pool]) -> Sequence[str] | None:
    """Return the modules that the workers of these pools need; None if a stage does not declare them."""
    modules: dict[str, None] = {}
    for pool in pools:
        if not is_reusable(pool):
            return None
        for step in pool.steps:
            if step.preload is None:
                return None
            modules.update(dict.fromkeys(step.preload))
    return list(modules)
