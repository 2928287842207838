"""Shared fixtures: a Ray cluster, started once for the tests that need it, and the compatibility layer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.compat import finder

# The scripts are run by test_user_scripts; without the finder they cannot be imported.
collect_ignore = ["compat/scripts"]

# A run would use the cluster named here; tests set it themselves.
os.environ.pop("RAY_ADDRESS", None)
# Token authentication of Ray is one setting per process, and its default depends on how a cluster was started. The
# clusters of tests live for seconds, and one process uses several of them.
os.environ["RAY_AUTH_MODE"] = "disabled"


# The limit for tests that start clusters or are marked slow, on a busy machine.
_SLOW_TEST_TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raise the time limit of slow tests above the one in pyproject.toml, unless they set their own."""
    for item in items:
        slow = item.get_closest_marker("ray") or item.get_closest_marker("slow")
        if slow and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SLOW_TEST_TIMEOUT_S))


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """Start a Ray cluster of one node with four CPUs and two claimed GPUs, and return its address."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 4,
            "num_gpus": 2,
            "object_store_memory": 200_000_000,
            "include_dashboard": False,
        },
    )
    yield cluster.address
    cluster.shutdown()


@pytest.fixture
def on_ray(ray_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run pipelines on the cluster."""
    monkeypatch.setenv("RAY_ADDRESS", ray_address)
    return ray_address


@pytest.fixture
def no_compat() -> Iterator[None]:
    """Remove the finder before and after the test."""
    finder.uninstall()
    yield
    finder.uninstall()


@pytest.fixture
def compat(no_compat: None) -> None:
    """Make ``nemo_curator`` importable for one test."""
    finder.install()


@pytest.fixture
def real_package(no_compat: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a package called ``nemo_curator`` on the path, as if it were installed."""
    package = tmp_path / "nemo_curator"
    package.mkdir()
    (package / "__init__.py").write_text("REAL = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("nemo_curator", None)
