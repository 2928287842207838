"""What tests share: a Ray cluster, started once for those that need it, and the name ``nemo_curator`` for one test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.compat import finder

# The scripts are run by test_user_scripts; without the finder they cannot even be imported.
collect_ignore = ["compat/scripts"]

# A run goes to the cluster that this names; tests say themselves where theirs go.
os.environ.pop("RAY_ADDRESS", None)
# Whether Ray asks for tokens is one setting for a whole process, and its default depends on how a cluster was started.
# These live for seconds, and one process uses several of them.
os.environ["RAY_AUTH_MODE"] = "disabled"


# Seconds for tests that start clusters or are marked slow, on a machine that does other work as well.
_PATIENCE_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time than the limit in pyproject.toml; one that names its own limit keeps it."""
    for item in items:
        slow = item.get_closest_marker("ray") or item.get_closest_marker("slow")
        if slow and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_PATIENCE_S))


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
        },
    )
    yield cluster.address
    cluster.shutdown()


@pytest.fixture
def on_ray(ray_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have runs go to the cluster."""
    monkeypatch.setenv("RAY_ADDRESS", ray_address)
    return ray_address


@pytest.fixture
def no_compat() -> Iterator[None]:
    """Start and end without the finder, whatever ran before."""
    finder.uninstall()
    yield
    finder.uninstall()


@pytest.fixture
def compat(no_compat: None) -> None:
    """Make ``nemo_curator`` importable for one test."""
    finder.install()


@pytest.fixture
def real_package(no_compat: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a package called ``nemo_curator`` on the path, as an installed one would be."""
    package = tmp_path / "nemo_curator"
    package.mkdir()
    (package / "__init__.py").write_text("REAL = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("nemo_curator", None)
