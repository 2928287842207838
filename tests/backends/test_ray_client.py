"""``RayClient`` starts a Ray for one script, which pipelines use by default, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from penstock import Pipeline, RayClient, SlurmRayClient
from penstock.backends.ray.ports import answers, free_port
from penstock.backends.ray.prometheus import announce, withdraw
from penstock.errors import ClusterError
from penstock.recipe.recipe import load_recipe
from penstock.testing import ListSource, make_batch

pytestmark = pytest.mark.ray
STORE = 120_000_000


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def client(folder: Path, **settings: object) -> RayClient:
    log = str(folder / "ray.log")
    quick = {"include_dashboard": False, "object_store_memory": STORE, "num_cpus": 2, "num_gpus": 0}
    return RayClient(ray_stdouterr_capture_file=log, **{**quick, **settings})  # type: ignore[arg-type]


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def test_pipeline_inside_the_client_runs_on_it_and_leaves_nothing(tmp_path: Path) -> None:
    before = children()
    (tmp_path / "prometheus.yml").write_text("")
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", free_port(6379)))
        squatter.listen()
        taken = squatter.getsockname()[1]
        with client(tmp_path, ray_port=taken, enable_object_spilling=True, metrics_dir=str(tmp_path)) as running:
            assert running.ray_port > taken  # the first client keeps its port
            assert os.environ["RAY_ADDRESS"] == running.address
            with RayClient() as attached:
                assert attached.address == running.address
            assert running.address is not None
            assert answers(running.address)  # it is not the second one's to end
            [result] = Pipeline("p", stages=[ListSource([make_batch(["a"])])]).run()
            assert result.num_items == 1
            [job] = scraped(tmp_path)
            assert job["file_sd_configs"] == [
                {"files": [f"{running.ray_temp_dir}/prom_metrics_service_discovery.json"]}
            ]
    assert scraped(tmp_path)[0]["file_sd_configs"] == [{"files": []}]
    assert "RAY_ADDRESS" not in os.environ
    assert children() <= before


def scraped(folder: Path) -> list[dict[str, Any]]:
    """Return the files that Prometheus reads metrics ports from."""
    jobs: list[dict[str, Any]] = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"]
    return jobs


def test_running_prometheus_is_asked_to_reload(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text("scrape_configs:\n- job_name: mine\n")
    asked: list[str] = []

    class Prometheus(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Prometheus) as server:
        threading.Thread(target=server.serve_forever).start()
        (tmp_path / "prometheus.port").write_text(str(server.server_port))
        for _ in range(2):
            announce(tmp_path, "/tmp/ray")
        server.shutdown()
    assert asked == ["/-/reload"]
    assert scraped(tmp_path)[1]["file_sd_configs"] == [{"files": ["/tmp/ray/prom_metrics_service_discovery.json"]}]
    withdraw(tmp_path, "/tmp/ray")  # no server listens any more, which is not an error
    assert scraped(tmp_path)[1]["file_sd_configs"] == [{"files": []}]


def test_ports_reserved_for_ray_workers_are_not_chosen(tmp_path: Path) -> None:
    with socket.socket() as squatter:
        try:
            squatter.bind(("127.0.0.1", 10001))
            squatter.listen()
        except OSError:
            pass  # another process has it, which is as good
        with client(tmp_path) as running:
            assert running.ray_client_server_port >= 20000


def test_port_taken_while_ray_starts_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process takes the port after it was found free, when Ray's command line is made."""
    command = RayClient._head_command
    with ExitStack() as taken:

        def lose_the_port(self: RayClient) -> list[str]:
            if self.ray_client_server_port == first:
                squatter = taken.enter_context(socket.socket())
                squatter.bind(("", first))
                squatter.listen()
            return command(self)

        first = free_port(20500)
        monkeypatch.setattr(RayClient, "_head_command", lose_the_port)
        with client(tmp_path, ray_client_server_port=first) as running:
            assert running.ray_client_server_port > first
            assert running.address is not None
            assert answers(running.address)


def test_cluster_that_does_not_answer_is_named_after_a_bounded_wait(
    tmp_path: Path,
) -> None:
    """A socket accepts connections and never answers, like a head whose processes hang."""
    with socket.socket() as silent:
        silent.settimeout(60)
        silent.bind(("", 0))  # Ray has a name of its own for this machine
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", JOINING],
            env={**os.environ, "RAY_ADDRESS": address},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1
    assert f"the Ray cluster at {address} did not answer within 2 s" in done.stderr


JOINING = """\
from penstock import Pipeline
from penstock.backends.ray import venue
from penstock.testing import ListSource, make_batch
venue.JOIN_TIMEOUT_S = 2.0
Pipeline("p", stages=[ListSource([make_batch(["a"])])]).run()
"""


def test_ctrl_c_ends_the_wait_for_a_cluster(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.settimeout(60)
        silent.bind(("", 0))  # Ray has a name of its own for this machine
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        waiting = subprocess.Popen(
            [sys.executable, "-c", JOINING.replace("= 2.0", "= 500.0")],
            env={**os.environ, "RAY_ADDRESS": address},
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            connections = [silent.accept()[0] for _ in range(2)]  # one to see whether anything listens, one of Ray's
            waiting.send_signal(signal.SIGINT)
            _, said = waiting.communicate(timeout=60)
        finally:
            waiting.kill()
        for connection in connections:
            connection.close()
    assert "KeyboardInterrupt" in said


def test_error_contains_rays_log_if_it_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"(?s)Ray ended with exit code .*ray\.log\) ends with:\n  \|"):
        client(tmp_path, object_store_memory=1).start()
    assert "RAY_ADDRESS" not in os.environ


RECIPE = """\
name: job
stages:
  - _target_: JsonlReader
    file_paths: {folder}/in
  - _target_: JsonlWriter
    path: {folder}/out
ray_client:
  _target_: nemo_curator.core.client.RayClient
  num_cpus: null
  num_gpus: 0
  include_dashboard: false
  object_store_memory: 120000000
backend: ray_data
"""


def test_recipe_may_start_its_own_cluster(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "job.yaml").write_text(RECIPE.format(folder=tmp_path))
    recipe = load_recipe(str(tmp_path / "job.yaml"), ["ray_client.num_cpus=2", "ray_client.num_gpus=4"])
    assert recipe.ray_client is not None
    assert (recipe.ray_client.num_cpus, recipe.ray_client.num_gpus) == (2, 4)
    command = [sys.executable, "-m", "penstock", "run", "job.yaml", "ray_client.num_cpus=2", "ray_client.num_gpus=4"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    [written] = (tmp_path / "out").glob("*.jsonl")
    assert json.loads(written.read_text()) == {"text": "a"}


SLURM_SCRIPT = """\
import ray
from penstock import SlurmRayClient
from penstock.backends.ray.connect import connect
with SlurmRayClient(include_dashboard=False, object_store_memory=120_000_000, num_gpus=0) as client:
    connect(client.address)
    print("CPUs", ray.cluster_resources()["CPU"], flush=True)
    ray.shutdown()
"""


@pytest.mark.slow
def test_slurm_job_of_two_nodes_becomes_one_cluster_with_one_driver(tmp_path: Path) -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "2"}
    nodes = [
        subprocess.Popen(
            [sys.executable, "-c", SLURM_SCRIPT],
            env={**os.environ, **job, "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_NODEID": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    said = [node.communicate(timeout=300) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert [output for output, _ in said] == ["CPUs 4.0\n", ""]
    assert list(tmp_path.iterdir()) == []


def test_without_slurm_it_acts_as_a_plain_client(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("RAY_ADDRESS", "somewhere:1")
    with SlurmRayClient() as attached:
        assert attached.address == "somewhere:1"
