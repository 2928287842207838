"""A chain of stages, set up where it will run: after what changes the meaning of modules, within its own limits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import cloudpickle

from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.ledger.record.collector import LedgerOrders
from penstock.runtime.limits import limit_gpu, limit_threads
from penstock.runtime.node_preparation import prepare_node_once
from penstock.runtime.position_file import PositionFile
from penstock.runtime.worker import ChainRunner


@dataclass(frozen=True)
class ChainOrders:
    """What a worker of any backend has to know to set its stages up."""

    worker: str
    pool: int
    max_attempts: int
    threads: int
    gpu_share: float
    ledger: LedgerOrders | None
    sys_path: tuple[str, ...]
    # Modules that change what the user's own modules mean, to be imported before those.
    preludes: tuple[str, ...]


def set_up_chain(
    orders: ChainOrders,
    chain: bytes,
    folder: Path,
    node: NodeInfo,
    gpus: str | None,
    crumb: PositionFile,
    keep_failure: Callable[[ProcessingStage[Any, Any], Task[Any]], str],
) -> ChainRunner:
    """Load the stages, prepare the machine if nobody of this pool has, and set them up.

    ``folder`` is the run's own on this machine; ``crumb`` is where the worker notes its position, in case it dies.
    """
    sys.path[:] = list(dict.fromkeys([*orders.sys_path, *sys.path]))
    for module in orders.preludes:
        import_module(module)
    steps: Sequence[ProcessingStage[Any, Any]] = cloudpickle.loads(chain)
    limit_threads(orders.threads)
    limit_gpu(orders.gpu_share)
    worker = ChainRunner(
        steps,
        max_attempts=orders.max_attempts,
        on_step=crumb.leave,
        keep_failure=keep_failure,
        ledger=orders.ledger,
    )
    metadata = WorkerMetadata(orders.worker, gpus)
    prepare_node_once(worker, folder, orders.pool, node, metadata)
    worker.set_up(metadata)
    return worker
