"""Snapshots of a run that captions videos."""

from typing import Any

from penstock.core.snapshot import PoolSnapshot, RunSnapshot

GB = 10**9


def pool(name: str = "caption", **changes: Any) -> PoolSnapshot:
    values: dict[str, Any] = {
        "stages": (name,), "ready": 4, "wanted": 4, "items_per_second": 4.0, "queue": 12, "held_bytes": 1_150_000_000,
        "busy": 0.97, "done": 8_400, "remaining": 31_000.0, "eta_seconds": 7_500.0,
    }  # fmt: skip
    return PoolSnapshot(name, **{**values, **changes})


def run(*pools: PoolSnapshot, **changes: Any) -> RunSnapshot:
    values: dict[str, Any] = {
        "elapsed": 310.0, "held_bytes": 1_572_000_000, "budget_bytes": 4 * GB, "bottleneck": "caption",
        "bound_by": "GPUs", "efficiency": 0.97, "eta_seconds": 7_500.0,
    }  # fmt: skip
    return RunSnapshot("captions", pools=pools, **{**values, **changes})


def captioning(**changes: Any) -> RunSnapshot:
    """Return a run in progress: reading is done, captioning is the bottleneck."""
    return run(
        pool("read", busy=0.05, queue=0, held_bytes=0, done=1_240, remaining=0.0, eta_seconds=0.0),
        pool("decode … clean", stages=("decode", "split", "resize", "clean"), ready=11, wanted=11,
             items_per_second=1_234.0, busy=0.71, done=30_412, remaining=8_000.0, eta_seconds=190.0),
        pool("caption", ready=3),
        pool("write", ready=1, wanted=1, busy=0.02, queue=0, held_bytes=12_000_000),
        **changes,
    )  # fmt: skip
