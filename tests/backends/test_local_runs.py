"""Runs with local worker processes: pools, plans and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.testing import ListSource, make_batch

Docs = ProcessingStage[DocumentBatch, DocumentBatch]


def streaming(folder: Path, **settings: Any) -> StreamingExecutor:
    settings.setdefault("cpus", 3)
    return StreamingExecutor(show_progress=False, run_dir=str(folder / "run"), **settings)


def summary(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "run/summary.json").read_text())
    return data


def test_thirty_pools_run_on_two_cores_even_with_fixed_worker_counts(tmp_path: Path) -> None:
    tasks = [make_batch([f"document {i}"]) for i in range(4)]
    insisting: list[Any] = [Nothing(f"stage-{i}").with_(num_workers=1) for i in range(30)]
    results = Pipeline("p", stages=[ListSource(tasks), *insisting]).run(streaming(tmp_path, cpus=2))
    assert len(results) == 4
    fused = Pipeline("p", stages=[ListSource(tasks), *(Nothing(f"stage-{i}") for i in range(30))])
    fused.run(streaming(tmp_path, cpus=2))
    assert [len(pool["stages"]) for pool in summary(tmp_path)["pools"]] == [1, 30]


class Nothing(Docs):
    def __init__(self, name: str, cpus: float = 1.0) -> None:
        self.name = name
        self.resources = Resources(cpus=cpus)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_summary_lists_pools_and_plans(tmp_path: Path) -> None:
    Pipeline("p", stages=[ListSource([make_batch(["a"])]), Nothing("shout", cpus=1.5)]).run(streaming(tmp_path))
    told = summary(tmp_path)
    assert [pool["name"] for pool in told["pools"]] == ["list_source", "shout"]
    assert told["pools"][1]["border"] == "'list_source' is the source: its tasks spread over workers"
    assert told["plans"][0]["reason"] == "start"
    assert told["budget_bytes"] > 0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"config": {"loging_interval": 1}}, "unknown setting 'loging_interval'.*Did you mean 'logging_interval'"),
        ({"config": {"execution_mode": "fast"}}, "it is 'streaming' or 'batch'"),
        ({"memory_budget": "lots"}, "'lots' is not a size"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        StreamingExecutor(**settings)
