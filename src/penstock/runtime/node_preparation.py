"""Call ``setup_on_node`` once per machine and pool, even if several workers start at the same time."""

from __future__ import annotations

import fcntl
from pathlib import Path

from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.runtime.worker import ChainRunner


def prepare_node_once(worker: ChainRunner, folder: Path, pool: int, node: NodeInfo, metadata: WorkerMetadata) -> None:
    """Prepare this machine for a pool, unless another worker has; wait while another worker is doing it.

    ``folder`` is local to the machine. The file lock is released by the kernel if its owner dies, so that the next
    worker can try.
    """
    mark = folder / f"prepared-{pool}"
    with mark.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists():
            worker.prepare_node(node, metadata)
            mark.touch()
