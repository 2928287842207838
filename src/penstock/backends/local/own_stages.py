"""What is known of Penstock's own stages: whether one process can serve several, and what they need loaded."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.backends.local.fork_server import Loaded
from penstock.plan.plan import Pool

_OWN = ("penstock.dedup.", "penstock.text.io.")
# Those of exact deduplication on Parquet files. Numba is a third of what there is to load for the others.
_WITHOUT_KERNELS = frozenset(
    {
        *(f"penstock.dedup.{module}" for module in ("exact", "index", "outcome", "phases", "removal")),
        *(f"penstock.text.io.{module}" for module in ("parquet", "partitioning")),
    }
)


def may_stay(pool: Pool) -> bool:
    """Tell whether a process that has served a pool is as good as new, or can serve this one as if it were.

    What a user's stages leave behind is known to nobody.
    """
    return not pool.resources.requires_gpu and all(module.startswith(_OWN) for module in _modules(pool))


def needed_by(pools: Iterable[Pool]) -> Loaded:
    """Return what the workers of some pools begin with."""
    return max((_needed(pool) for pool in pools), default=Loaded.ARROW)


def _needed(pool: Pool) -> Loaded:
    if not may_stay(pool):
        return Loaded.PANDAS
    return Loaded.ARROW if _modules(pool) <= _WITHOUT_KERNELS else Loaded.KERNELS


def _modules(pool: Pool) -> set[str]:
    return {type(step).__module__ for step in pool.steps}
