"""``SlurmRayClient``: turn a script that runs on every node of a Slurm job into a Ray cluster with one driver.

The first node starts the head node and writes its address to a file that all nodes can read. The other nodes join it,
wait until it ends, and exit. Only on the first node does ``start`` return.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.ray.client import RayClient, _ray
from penstock.backends.ray.connect import connect, use_token_if_there_is_one
from penstock.backends.ray.ports import answers
from penstock.errors import ClusterError
from penstock.extras import require


@dataclass
class SlurmRayClient(RayClient):
    """Run a Ray cluster on all nodes of a Slurm job; without Slurm, or on a single node, act as ``RayClient``.

    ``worker_connect_timeout_s`` is how long nodes wait for each other. The run starts with the nodes that have joined
    by then; others join later.

    >>> client = SlurmRayClient(worker_connect_timeout_s=600)
    >>> client.worker_connect_timeout_s
    600
    """

    ray_dashboard_host: str = "0.0.0.0"
    worker_connect_timeout_s: int = 300
    cleanup_on_start: bool = True

    def start(self) -> None:
        """Start the head on the first node and return; on other nodes, join it and exit when it ends."""
        if self._num_nodes() <= 1 or os.environ.get("RAY_ADDRESS"):
            super().start()
            return
        require("ray", "ray", "Starting a Ray cluster")
        self._take_from_slurm()
        if int(os.environ.get("SLURM_NODEID", "0")) > 0:
            self._serve()
        if self.cleanup_on_start:
            self._address_file().unlink(missing_ok=True)
        super().start()
        written = self._address_file().with_suffix(".tmp")
        written.write_text(self._head_address(), encoding="ascii")
        written.replace(self._address_file())
        self._wait_for_workers()

    def stop(self) -> None:
        """Stop the head; the other nodes detect that and exit."""
        if self._process is not None and self._num_nodes() > 1:
            self._address_file().unlink(missing_ok=True)
        super().stop()

    def _serve(self) -> None:
        """Run as a worker node until the head ends, then exit."""
        self.address = address = self._wait_for_head()
        use_token_if_there_is_one()
        self._launch([*_ray("start"), f"--address={address}", *self._machine_options()])
        assert self._process is not None
        while self._process.poll() is None and answers(address):
            time.sleep(1.0)
        if self._process.poll() is not None and answers(address):
            raise ClusterError(f"this node could not join the head at {address}, or lost its connection.{self._tail()}")
        RayClient.stop(self)
        sys.exit(0)

    def _wait_for_head(self) -> str:
        deadline = time.monotonic() + self.worker_connect_timeout_s
        while time.monotonic() < deadline:
            if self._address_file().exists():
                address = self._address_file().read_text(encoding="ascii")
                if answers(address):
                    return address
            time.sleep(0.2)
        raise ClusterError(
            f"no head has announced itself in {self._address_file()} within {self.worker_connect_timeout_s} s. "
            "All nodes of the job must be able to read this file: set PENSTOCK_SLURM_DIR to such a folder."
        )

    def _wait_for_workers(self) -> None:
        import ray

        deadline = time.monotonic() + self.worker_connect_timeout_s
        connect(self._head_address())
        try:
            while (here := sum(node["Alive"] for node in ray.nodes())) < self._num_nodes():
                if time.monotonic() > deadline:
                    warnings.warn(
                        f"only {here} of {self._num_nodes()} nodes have joined; continuing with these", stacklevel=3
                    )
                    return
                time.sleep(0.2)
        finally:
            ray.shutdown()

    def _take_from_slurm(self) -> None:
        """Use the CPUs and GPUs that Slurm assigned on this node, unless they are set."""
        for name, variable in (("num_cpus", "SLURM_CPUS_ON_NODE"), ("num_gpus", "SLURM_GPUS_ON_NODE")):
            if getattr(self, name) is None and os.environ.get(variable, "").isdigit():
                setattr(self, name, int(os.environ[variable]))

    def _host(self) -> str:
        if self._num_nodes() <= 1:
            return super()._host()
        return socket.gethostbyname(socket.gethostname())

    def _num_nodes(self) -> int:
        return int(os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES") or 1)

    def _address_file(self) -> Path:
        folder = os.environ.get("PENSTOCK_SLURM_DIR") or os.environ.get("SLURM_SUBMIT_DIR") or "."
        return Path(folder) / f".penstock-ray-{os.environ.get('SLURM_JOB_ID', 'job')}"
