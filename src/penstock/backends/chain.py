"""Set up a chain of stages in a worker: import path, compatibility modules, limits, then the stages."""

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
from penstock.ledger.record.collector import Collector, LedgerOrders
from penstock.runtime.limits import limit_gpu, limit_threads
from penstock.runtime.node_preparation import prepare_node_once
from penstock.runtime.position_file import PositionFile
from penstock.runtime.worker import ChainRunner


@dataclass(frozen=True)
class ChainOrders:
    """The settings that a worker of any backend needs to set up its stages."""

    worker: str
    pool: int
    max_attempts: int
    threads: int
    gpu_share: float
    ledger: LedgerOrders | None
    sys_path: tuple[str, ...]
    # Modules that must be imported before the user's own, because they replace names those import.
    preludes: tuple[str, ...]


def set_up_chain(
    orders: ChainOrders,
    chain: bytes,
    folder: Path,
    node: NodeInfo,
    gpus: str | None,
    position_file: PositionFile,
    keep_failure: Callable[[ProcessingStage[Any, Any], Task[Any]], str],
) -> ChainRunner:
    """Load the stages, prepare the machine unless another worker of the pool has, and set the stages up.

    ``folder`` is the folder of the run on this machine; ``position_file`` is where the worker records its position.
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
        on_step=position_file.begin_step,
        keep_failure=keep_failure,
        observer=Collector(orders.ledger) if orders.ledger is not None else None,
    )
    metadata = WorkerMetadata(orders.worker, gpus)
    prepare_node_once(worker, folder, orders.pool, node, metadata)
    worker.set_up(metadata)
    return worker
