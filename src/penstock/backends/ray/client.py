"""``RayClient``: starts a Ray on this machine for a script, and ends it; or uses the one that is there."""

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
_POLL_S = 0.1
_STOP_PATIENCE_S = 10.0
_LINES_SHOWN = 20
_PORTS = ("ray_port", "ray_dashboard_port", "ray_client_server_port", "ray_metrics_port")
# Another process may take a port between the moment it is found free and the moment Ray takes it. Then others are
# tried, at some distance, because several clients that start at the same time would choose the same ones again.
_ATTEMPTS = 5
_CLIENT_SERVER_S = 10.0
_SPREAD = 50
_PORT_IS_TAKEN = ("ddress already in use", "already running at", "used by other components", "Failed to bind")
# What ``ray start`` prints when everything is there.
_STARTED = "Ray runtime started"


@dataclass
class RayClient:
    """A Ray head on this machine, for as long as the script needs it; its pipelines run there without being told.

    If ``RAY_ADDRESS`` is set, that cluster is used and left alone. A port that is taken, also one that is taken while
    Ray starts, is replaced by another one outside of 10002 to 19999, which Ray gives to its workers. ``num_cpus`` and
    ``num_gpus`` left out are all there are. ``enable_object_spilling`` has Ray write objects that do not fit into
    ``ray_temp_dir``; without it they go where Ray puts them by itself. What Ray prints goes to
    ``ray_stdouterr_capture_file``. A ``prometheus.yml`` in ``metrics_dir`` names this Ray's metrics while it is there.

    ::

        with RayClient(num_cpus=8):
            pipeline.run()
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
    # Where the cluster is, once it is there.
    address: str | None = field(init=False, default=None)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None, repr=False)
    _log: Path | None = field(init=False, default=None, repr=False)
    # When Ray said that it had started.
    _started_at: float | None = field(init=False, default=None, repr=False)

    def start(self) -> None:
        """Start a head and wait until it answers, or take the cluster that ``RAY_ADDRESS`` names."""
        if self.address is not None:
            return
        given = os.environ.get(_ADDRESS)
        if given:
            self.address = given
            return
        require("ray", "ray", "Starting a Ray cluster")
        use_token_if_there_is_one()  # here, so that Ray's process and this one agree
        self._start_head()
        self.address = os.environ[_ADDRESS] = self._head_address()
        if self.metrics_dir is not None:
            prometheus.announce(Path(self.metrics_dir), self.ray_temp_dir)

    def stop(self) -> None:
        """End what was started; a cluster that was there before stays."""
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
        """Start."""
        self.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    # ------------------------------------------------------------------------------------------------------

    def _start_head(self) -> None:
        """Start Ray, with other ports if another process has taken one of them since they were chosen."""
        deadline = time.monotonic() + self.start_timeout_s
        for attempt in range(1, _ATTEMPTS + 1):
            self._choose_ports(beyond=random.randrange(_SPREAD) if attempt > 1 else 0)
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
                if not may_help or attempt == _ATTEMPTS:
                    raise

    def _has_lost_port(self) -> bool:
        """Tell whether another process has a port that was free when it was chosen."""
        said = self._log.read_text(errors="replace") if self._log is not None else ""
        ports = [getattr(self, name) for name in _PORTS]
        return any(words in said for words in _PORT_IS_TAKEN) or any(free_port(port) != port for port in ports)

    def _is_up(self) -> bool:
        """Tell whether Ray says that all of it runs, and answers: its first process does so before the others."""
        said = self._log.read_text(errors="replace") if self._log is not None else ""
        if _STARTED not in said or not answers(self._head_address(), 1.0):
            return False
        # The server for remote clients is the last one to take its port, and all of Ray ends if it can't. It is not
        # started where Ray was installed without it.
        self._started_at = self._started_at or time.monotonic()
        is_late = time.monotonic() > self._started_at + _CLIENT_SERVER_S
        return is_late or (self._process is not None and _listens(self._process.pid, self.ray_client_server_port))

    def _host(self) -> str:
        return "127.0.0.1"

    def _head_address(self) -> str:
        return f"{self._host()}:{self.ray_port}"

    def _choose_ports(self, beyond: int = 0) -> None:
        """Replace ports that are taken, so that two clients on one machine do not meet; look that far beyond them."""
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
        """Say what Ray may use of a machine; what is left out it finds itself."""
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
            # A session of its own: Ctrl-C in a terminal is for the script, which then ends Ray in good order.
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _wait_until(self, is_so: Callable[[], bool], what: str, deadline: float) -> None:
        """Wait for something of Ray's, not longer than it may take, and say what its log says if it does not come."""
        while not is_so():
            if self._process is not None and self._process.poll() is not None:
                raise ClusterError(
                    f"Ray ended with exit code {self._process.returncode} before it was up.{self._tail()}"
                )
            if time.monotonic() > deadline:
                raise ClusterError(f"Ray did not {what} within {self.start_timeout_s:g} s.{self._tail()}")
            time.sleep(_POLL_S)

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log is not None else []
        shown = "".join(f"\n  | {line}" for line in lines[-_LINES_SHOWN:])
        return f" Its log ({self._log}) ends with:{shown}"

    def _forget(self, address: str) -> None:
        """Take away the note by which ``ray.init()`` would look for this cluster after it has ended."""
        note = Path(self.ray_temp_dir) / "ray_current_cluster"
        with suppress(OSError):
            if note.read_text().strip() == address:
                note.unlink()


def spilling_config(folder: str) -> str:
    """Return what tells Ray where to write objects that do not fit: JSON, with JSON inside as a string.

    >>> json.loads(json.loads(spilling_config("/data"))["object_spilling_config"])["params"]
    {'directory_path': '/data/spilled'}
    """
    target = {"type": "filesystem", "params": {"directory_path": str(Path(folder) / "spilled")}}
    return json.dumps({"object_spilling_config": json.dumps(target)})


def _ray(command: str) -> list[str]:
    """Return the beginning of a command line of the Ray that this Python has, whatever PATH says."""
    return [sys.executable, "-c", "from ray.scripts.scripts import main; main()", command]


def _listens(pid: int, port: int) -> bool:
    """Tell whether a descendant of a process listens at a port; another process may be the one that answers there."""
    try:
        family = psutil.Process(pid).children(recursive=True)
        listening = [line for member in family for line in member.net_connections("tcp") if line.status == "LISTEN"]
    except psutil.Error:  # one of them has just ended
        return False
    return any(line.laddr.port == port for line in listening)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End Ray in good order, and whatever of it is left then."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        family = []
    process.terminate()
    try:
        process.wait(_STOP_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_PATIENCE_S)
    _, alive = psutil.wait_procs(family, timeout=3)
    for left in alive:
        left.kill()
    psutil.wait_procs(alive, timeout=3)
