"""``RayClient``: start Ray on this machine for a script and stop it at the end, or use an existing cluster."""

from __future__ import annotations

import atexit
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from penstock.backends.ray import prometheus
from penstock.backends.ray.connect import use_token_if_there_is_one
from penstock.backends.ray.ports import answers, free_port
from penstock.errors import ClusterError
from penstock.extras import require

_ADDRESS = "RAY_ADDRESS"
_POLL_INTERVAL_S = 0.1
_STOP_TIMEOUT_S = 10.0
_MAX_LOG_LINES = 20
_PORTS = ("ray_port", "ray_dashboard_port", "ray_client_server_port", "ray_metrics_port")
# Another process may take a port after it is found free and before Ray opens it. Then other ports are tried, at a
# random offset, because several clients that start at the same time would choose the same ones again.
_MAX_ATTEMPTS = 5
_CLIENT_SERVER_TIMEOUT_S = 10.0
_MAX_PORT_OFFSET = 50
_PORT_IS_TAKEN = ("ddress already in use", "already running at", "used by other components", "Failed to bind")
# Printed by ``ray start`` when all processes are running.
_STARTED = "Ray runtime started"


@dataclass
class RayClient:
    """Run a Ray head node on this machine while a script runs; pipelines of the script use it by default.

    If ``RAY_ADDRESS`` is set, that cluster is used, and neither started nor stopped. A port that is in use, also one
    that is taken while Ray starts, is replaced by another one outside of 10002 to 19999, which Ray assigns to its
    workers. The default of ``num_cpus`` and ``num_gpus`` is all that the machine has. With ``enable_object_spilling``
    Ray spills objects to ``ray_temp_dir``; without it, to Ray's default folder. Output of Ray is written to
    ``ray_stdouterr_capture_file``. The metrics of this Ray are added to ``prometheus.yml`` in ``metrics_dir`` while it
    runs.

    ::

        with RayClient(num_cpus=8):
            pipeline.run()

    >>> client = RayClient(num_cpus=8, include_dashboard=False)
    >>> client.num_cpus
    8
    """

    ray_port: int = 6379
    ray_dashboard_port: int = 8265
    ray_client_server_port: int = 10001
    ray_temp_dir: str = field(default_factory=lambda: str(Path(tempfile.gettempdir()) / "ray"))
    include_dashboard: bool = True
    ray_metrics_port: int = 8080
    ray_dashboard_host: str = "127.0.0.1"
    num_gpus: int | None = None
    num_cpus: int | None = None
    object_store_memory: int | None = None
    enable_object_spilling: bool = False
    ray_stdouterr_capture_file: str | None = None
    metrics_dir: str | None = None
    start_timeout_s: float = 300.0
    # The address of the cluster, once it runs.
    address: str | None = field(init=False, default=None)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None, repr=False)
    _log: Path | None = field(init=False, default=None, repr=False)
    # When Ray reported that it had started.
    _started_at: float | None = field(init=False, default=None, repr=False)

    def start(self) -> None:
        """Start a head node and wait until it answers, or use the cluster that ``RAY_ADDRESS`` names."""
        if self.address is not None:
            return
        given = os.environ.get(_ADDRESS)
        if given:
            self.address = given
            return
        require("ray", "ray", "Starting a Ray cluster")
        use_token_if_there_is_one()  # before the start, so that both processes use the same setting
        self._start_head()
        self.address = os.environ[_ADDRESS] = self._head_address()
        if self.metrics_dir is not None:
            prometheus.announce(Path(self.metrics_dir), self.ray_temp_dir)

    def stop(self) -> None:
        """Stop the head node if this client has started it."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is not None:
            if os.environ.get(_ADDRESS) == self.address:
                os.environ.pop(_ADDRESS, None)
            _end(process)
            self._forget(self.address or self._head_address())
            if self.metrics_dir is not None:
                prometheus.withdraw(Path(self.metrics_dir), self.ray_temp_dir)
        self.address = None

    def __enter__(self) -> Self:
        """Start the head node."""
        self.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Stop the head node."""
        self.stop()

    # ------------------------------------------------------------------------------------------------------

    def _start_head(self) -> None:
        """Start Ray; retry with other ports if another process has taken one of them."""
        deadline = time.monotonic() + self.start_timeout_s
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            self._choose_ports(beyond=random.randrange(_MAX_PORT_OFFSET) if attempt > 1 else 0)
            self._started_at = None
            self._launch(self._head_command())
            atexit.register(self.stop)
            try:
                self._wait_until(self._is_up, f"answer at {self._head_address()}", deadline)
                return
            except BaseException as error:
                has_ended = self._process is not None and self._process.poll() is not None
                self.stop()
                may_help = isinstance(error, ClusterError) and has_ended and self._has_lost_port()
                if not may_help or attempt == _MAX_ATTEMPTS:
                    raise

    def _has_lost_port(self) -> bool:
        """Tell whether another process has taken a port that was free when it was chosen."""
        said = self._log.read_text(errors="replace") if self._log is not None else ""
        ports = [getattr(self, name) for name in _PORTS]
        return any(words in said for words in _PORT_IS_TAKEN) or any(free_port(port) != port for port in ports)

    def _is_up(self) -> bool:
        """Tell whether Ray reports that all processes run, and answers: its first process answers before the rest."""
        said = self._log.read_text(errors="replace") if self._log is not None else ""
        if _STARTED not in said or not answers(self._head_address(), 1.0):
            return False
        # The server for remote clients is the last one to open its port, and all of Ray ends if that fails. It is not
        # started if Ray was installed without it.
        self._started_at = self._started_at or time.monotonic()
        is_late = time.monotonic() > self._started_at + _CLIENT_SERVER_TIMEOUT_S
        return is_late or (self._process is not None and _listens(self._process.pid, self.ray_client_server_port))

    def _host(self) -> str:
        return "127.0.0.1"

    def _head_address(self) -> str:
        return f"{self._host()}:{self.ray_port}"

    def _choose_ports(self, beyond: int = 0) -> None:
        """Replace ports that are in use by free ones; start the search ``beyond`` ports after each."""
        chosen: set[int] = set()
        for name in _PORTS:
            port = free_port(getattr(self, name) + beyond, taken=chosen)
            setattr(self, name, port)
            chosen.add(port)

    def _head_command(self) -> list[str]:
        command = [
            *_ray("start"),
            "--head",
            f"--node-ip-address={self._host()}",
            f"--port={self.ray_port}",
            f"--ray-client-server-port={self.ray_client_server_port}",
            f"--metrics-export-port={self.ray_metrics_port}",
            f"--temp-dir={self.ray_temp_dir}",
            f"--include-dashboard={self.include_dashboard}",
            f"--dashboard-host={self.ray_dashboard_host}",
            f"--dashboard-port={self.ray_dashboard_port}",
            *self._machine_options(),
        ]
        if self.enable_object_spilling:
            command.append(f"--system-config={spilling_config(self.ray_temp_dir)}")
        return command

    def _machine_options(self) -> list[str]:
        """Return the options that limit Ray's resources; Ray detects those that are not set."""
        claims = {
            "num-cpus": self.num_cpus,
            "num-gpus": self.num_gpus,
            "object-store-memory": self.object_store_memory,
        }
        named = [f"--{name}={value}" for name, value in claims.items() if value is not None]
        return [*named, "--disable-usage-stats", "--block"]

    def _launch(self, command: list[str]) -> None:
        if self.ray_stdouterr_capture_file is not None:
            self._log = Path(self.ray_stdouterr_capture_file)
        else:
            descriptor, name = tempfile.mkstemp(prefix="penstock-ray-", suffix=".log")
            os.close(descriptor)
            self._log = Path(name)
        with self._log.open("wb") as log:
            # A separate session: Ctrl-C in a terminal reaches only the script, which then stops Ray cleanly.
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _wait_until(self, is_so: Callable[[], bool], what: str, deadline: float) -> None:
        """Wait for a condition; raise with the end of Ray's log if Ray ends or the deadline passes."""
        while not is_so():
            if self._process is not None and self._process.poll() is not None:
                raise ClusterError(
                    f"Ray ended with exit code {self._process.returncode} before it was up.{self._tail()}"
                )
            if time.monotonic() > deadline:
                raise ClusterError(f"Ray did not {what} within {self.start_timeout_s:g} s.{self._tail()}")
            time.sleep(_POLL_INTERVAL_S)

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log is not None else []
        shown = "".join(f"\n  | {line}" for line in lines[-_MAX_LOG_LINES:])
        return f" Its log ({self._log}) ends with:{shown}"

    def _forget(self, address: str) -> None:
        """Remove the file by which ``ray.init()`` would look for this cluster after it has ended."""
        note = Path(self.ray_temp_dir) / "ray_current_cluster"
        with suppress(OSError):
            if note.read_text().strip() == address:
                note.unlink()


def spilling_config(folder: str) -> str:
    """Return Ray's configuration of the spill folder: JSON that contains JSON as a string.

    >>> json.loads(json.loads(spilling_config("/data"))["object_spilling_config"])["params"]
    {'directory_path': '/data/spilled'}
    """
    target = {"type": "filesystem", "params": {"directory_path": str(Path(folder) / "spilled")}}
    return json.dumps({"object_spilling_config": json.dumps(target)})


def _ray(command: str) -> list[str]:
    """Return the start of a command line for the Ray of this Python, independent of PATH."""
    return [sys.executable, "-c", "from ray.scripts.scripts import main; main()", command]


def _listens(pid: int, port: int) -> bool:
    """Tell whether a descendant of a process listens at a port, as opposed to an unrelated process."""
    try:
        family = psutil.Process(pid).children(recursive=True)
        listening = [line for member in family for line in member.net_connections("tcp") if line.status == "LISTEN"]
    except psutil.Error:  # one of them has just ended
        return False
    return any(line.laddr.port == port for line in listening)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate Ray, and kill the processes that remain."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        family = []
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
    _, alive = psutil.wait_procs(family, timeout=3)
    for left in alive:
        left.kill()
    psutil.wait_procs(alive, timeout=3)
