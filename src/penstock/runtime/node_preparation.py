"""``setup_on_node``: once per machine and pool, however many workers start there at the same time."""

from __future__ import annotations

import fcntl
from pathlib import Path

from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.runtime.worker import ChainRunner


def prepare_node_once(worker: ChainRunner, folder: Path, pool: int, node: NodeInfo, metadata: WorkerMetadata) -> None:
    """Whoever comes first prepares the machine for a pool; everybody else waits until that is done.

    ``folder`` lies on that machine. The lock is the kernel's, so that whoever dies on the way lets the next one try.
    """
    mark = folder / f"prepared-{pool}"
    with mark.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists():
            worker.prepare_node(node, metadata)
            mark.touch()
