"""A run starts with the speeds of its stages that an earlier run has measured."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.core.cluster import Cluster, Node
from penstock.plan.planner import make_plan
from penstock.runtime.speeds import Speed, keys_of, read_speeds, speeds_file, write_speeds
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlWriter


class Sleeper(ProcessingStage[DocumentBatch, DocumentBatch]):
    def __init__(self, name: str, seconds: float, cpus: float) -> None:
        self.name = name
        self.seconds = seconds
        self.resources = Resources(cpus=cpus, gpus=1)  # different ones, so that each is a pool of its own

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(self.seconds)
        return task


def run(folder: Path, *, seconds: float = 0.2, **settings: Any) -> list[dict[str, Any]]:
    """Run three stages on seven claimed GPUs, and return every plan that was made."""
    source = ListSource([make_batch([f"document {i}"]) for i in range(20)])
    stages = [Sleeper("fast", 0.01, 0.1), Sleeper("slow", seconds, 0.2), Sleeper("medium", 0.05, 0.3)]
    settings = {"cpus": 16, "gpus": 7, "run_dir": str(folder), "show_progress": False, **settings}
    executor = StreamingExecutor(**settings)
    Pipeline("sleep", stages=[source, *stages]).run(executor)
    assert executor.last_summary is not None
    return executor.last_summary.plans or []


def test_second_run_is_balanced_from_its_first_plan(tmp_path: Path) -> None:
    first = run(tmp_path / "a")
    assert first[0]["workers"] == (1, 1, 1, 1), "no speed is known yet"
    learnt = json.loads(speeds_file().read_text())
    seconds = [speed["seconds_per_item"] for speed in learnt["pools"].values()]
    for slept, measured, speed in zip((0.01, 0.2, 0.05), seconds[1:], list(learnt["pools"].values())[1:], strict=True):
        assert measured >= slept
        speed["seconds_per_item"] = slept  # on a busy machine it takes longer to wake up
    speeds_file().write_text(json.dumps(learnt))
    second = run(tmp_path / "b")
    _, fast, slow, medium = second[0]["workers"]
    assert slow >= 4, "four of the slow one keep up with one of the medium one"
    assert min(fast, medium) >= 1
    assert second[0]["bottleneck"] is not None


def test_speed_is_not_reused_for_other_parameters(tmp_path: Path) -> None:
    run(tmp_path / "a")
    assert run(tmp_path / "b", seconds=0.1)[0]["workers"][2] == 1


def test_profile_can_be_switched_off(tmp_path: Path) -> None:
    run(tmp_path / "a", profile=False)
    assert not speeds_file().exists()


def test_damaged_speeds_file_is_replaced_and_does_not_fail_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speeds_file().parent.mkdir(parents=True)
    speeds_file().write_text('{"version": 1, "pools": {"x": {"seconds_per_item": "soon"}}}')
    assert run(tmp_path)[0]["workers"] == (1, 1, 1, 1)
    assert "begins without the speeds of earlier ones" in capsys.readouterr().err
    assert len(speeds_file().read_text()) > 200, "the next run has valid speeds again"


def test_oldest_speeds_are_removed_above_the_maximum(tmp_path: Path) -> None:
    path = tmp_path / "speeds.json"
    for i in range(3):
        write_speeds({f"{i}-{j}": Speed(1.0, 1.0, 0.0) for j in range(300)}, path)
    assert read_speeds(["0-0", "1-99", "1-100", "2-299"], path) == [None, None, *[Speed(1.0, 1.0, 0.0)] * 2]


def test_unwritable_cache_folder_does_not_fail_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    write_speeds({"x": Speed(1.0, 1.0, 0.0)}, tmp_path / "file" / "speeds.json")
    assert "were not kept" in capsys.readouterr().err


def test_speed_is_not_reused_for_other_code() -> None:
    def keys(body: str) -> list[str]:
        place: dict[str, Any] = {"ProcessingStage": ProcessingStage}
        exec(f"class Stage(ProcessingStage):\n    name = 'stage'\n    def process(self, task):\n        {body}", place)
        stages = Pipeline("p", stages=[ListSource([make_batch(["a"])]), place["Stage"]()]).build()
        return keys_of(make_plan("p", stages, Cluster((Node("a", 2, 8),)), listing={}))

    assert keys("return task") == keys("return task")
    assert len({tuple(keys(body)) for body in ("return task", "return None", "return task.a", "return lambda: 1")}) == 4


def test_output_folder_does_not_change_the_key_of_a_speed(tmp_path: Path) -> None:
    def keys(**parameters: Any) -> list[str]:
        stages = Pipeline("p", stages=[ListSource([make_batch(["a"])]), JsonlWriter(**parameters)]).build()
        return keys_of(make_plan("p", stages, Cluster((Node("a", 2, 8),)), listing={}))

    assert keys(path=str(tmp_path / "a")) == keys(path=str(tmp_path / "b"))
    assert keys(path=str(tmp_path / "a")) != keys(path=str(tmp_path / "a"), fields=["id"])
