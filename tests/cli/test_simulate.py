"""``penstock simulate`` as a user types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CLUSTER = "4x(8xH100-80,128cpu,1TB)"


def simulate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "simulate", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def pool(name: str, items_in: int, items_out: int, busy: float, **more: Any) -> dict[str, Any]:
    resources = {"cpus": 1.0, "gpus": more.pop("gpus", 0.0), "gpu_memory_gb": 0.0, "memory_gb": None}
    return {
        "name": name, "stages": [name], "resources": resources, "batch_size": 1, "workers": None, "items_in": items_in,
        "items_out": items_out, "busy_seconds": busy, "output_bytes": 1000 * items_out, "start_up_seconds": None, **more,
    }  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    pools = [
        pool("list", 1, 1000, 1.0),
        pool("read", 1000, 900, 50.0),
        pool("embed", 900, 900, 360.0, gpus=1.0, start_up_seconds=40.0),
    ]
    (tmp_path / "run.json").write_text(json.dumps({"pipeline": "web", "pools": pools}))
    return tmp_path


def test_an_earlier_run_is_simulated_on_another_cluster(run: Path) -> None:
    done = simulate(
        run, "run.json", "--cluster", CLUSTER, "--items", "100000", "--price", "gpu=2.5", "--price", "cpu=0.01"
    )
    assert done.returncode == 0, done.stderr
    assert "On 4 nodes, 512 CPUs, 4000.0 GB memory, 32 GPUs:" in done.stdout
    # 90,000 tasks of 0.4 s on 32 GPUs are 1125 s, and 40 s until they are ready.
    assert re.search(r"wall time   19 min \d+ s", done.stdout), done.stdout
    assert "bound by    'embed' on GPUs" in done.stdout
    assert re.search(r"busy        GPUs 9\d%, CPUs", done.stdout)
    # 85.12 per hour.
    [cost] = re.findall(r"cost        ([\d.]+)", done.stdout)
    assert 26 < float(cost) < 30
    assert re.search(r"one more node \(8xH100-80,128cpu,1TB\): .* 1\d\.\d% less", done.stdout)
    assert re.search(r"one more GPU \(H100-80\): .* [23]\.\d% less", done.stdout)


def test_a_thousand_nodes_and_a_hundred_million_items(run: Path) -> None:
    done = simulate(run, "run.json", "--cluster", "1000x(8xH100-80,128cpu,1TB)", "--items", "100000000")
    assert done.returncode == 0, done.stderr
    # 90,000,000 tasks of 0.4 s on 8,000 GPUs are 4500 s.
    assert re.search(r"wall time   1 h 1[56] min", done.stdout), done.stdout
    assert re.search(r"embed\s+90,000,000\s+0.4\s+8,000", done.stdout)


def test_a_recipe_needs_the_time_per_task_of_its_pools(tmp_path: Path) -> None:
    (tmp_path / "crawl").mkdir()
    (tmp_path / "crawl/a.jsonl").write_text('{"text": "x"}\n')
    arguments = [
        "english-web",
        "input_path=crawl",
        "output_path=clean",
        "--cluster",
        "2x(16cpu,64GB)",
        "--items",
        "3200",
    ]
    unknown = simulate(tmp_path, *arguments)
    assert unknown.returncode == 2
    assert "the time per task is unknown for jsonl_reader" in unknown.stderr
    done = simulate(tmp_path, *arguments, "--seconds", "jsonl_reader=2.0")
    assert done.returncode == 0, done.stderr
    assert re.search(r"wall time   3 min 2\d s", done.stdout), done.stdout
    assert not (tmp_path / "clean").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run.json", "--cluster", "4x(8xH100,128cpu,1TB)"], "'8xH100' in '(8xH100,128cpu,1TB)' is not understood"),
        (["run.json", "--cluster", "4y(128cpu)"], "expected a kind of node at '4y(128cpu)' (character 1)"),
        (["run.json", "--cluster", "(128cpu)"], "does not state memory, as in 1TB"),
        (["run.json", "--cluster", "(8cpu,16GB)"], "a worker of 'embed' needs 1 CPU, 1 GPU, which fits on no node"),
        (["run.json", "--cluster", CLUSTER, "--seconds", "ebmed=1"], "Did you mean 'embed'?"),
        (["run.json", "--cluster", CLUSTER, "--seconds", "embed=fast"], "'fast' is not a number that is 0 or more"),
        (
            ["run.json", "--cluster", CLUSTER, "--price", "tpu=1"],
            "'tpu' cannot have a price; expected one of gpu, cpu, node.",
        ),
        (["run.json", "--cluster", CLUSTER, "--bytes", "embed"], "'embed' is not of the form NAME=VALUE"),
        (["run.json", "x=1", "--cluster", CLUSTER], "'x=1' changes a recipe, but run.json is an earlier run."),
        (["missing.json"], "missing.json: No such file or directory."),
        (["broken.json"], "broken.json: expected the summary.json of a run with a streaming executor"),
        (["no-such-recipe"], "'no-such-recipe' is neither a file nor a recipe"),
    ],
)
def test_wrong_arguments_are_explained_without_traceback(run: Path, arguments: list[str], expected: str) -> None:
    (run / "broken.json").write_text('{"stages": []}')
    done = simulate(run, *arguments)
    assert expected in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


def test_help_has_an_example(tmp_path: Path) -> None:
    done = simulate(tmp_path, "--help")
    assert done.returncode == 0
    assert "  penstock simulate" in done.stdout
