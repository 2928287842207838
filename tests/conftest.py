"""What all tests share: a Ray cluster, started once for those that need it, and no trace of one for the others."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# A run goes to the cluster that this names; tests say themselves where theirs go.
os.environ.pop("RAY_ADDRESS", None)

# Lost machines are noticed in a second instead of half a minute.
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """Start a Ray of one node with four CPUs and two claimed GPUs, and return where it is."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 4,
            "num_gpus": 2,
            "object_store_memory": 200_000_000,
            "include_dashboard": False,
            "_system_config": QUICK,
        },
    )
    yield cluster.address
    cluster.shutdown()


@pytest.fixture
def on_ray(ray_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have runs go to the cluster."""
    monkeypatch.setenv("RAY_ADDRESS", ray_address)
    return ray_address
