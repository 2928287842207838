"""The driver's handle of a worker actor, and how to start one on a chosen machine."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from math import ceil, floor
from pathlib import Path
from typing import Any

import ray

from penstock.backends.chain import ChainOrders
from penstock.backends.chain_pickle import preludes
from penstock.backends.ray.actor import ActorOrders, WorkerActor
from penstock.backends.ray.messages import Reports
from penstock.backends.ray.nodes import RayNode
from penstock.backends.ray.ray_resources import RayResources
from penstock.ledger.record.run_ledger import KeptLedger
from penstock.plan.plan import Plan
from penstock.runtime.machine import GB
from penstock.schedule.actions import RunBatch, StartWorker

# Ray counts in ten-thousandths. Rounded down, shares that fill a GPU exactly still fit.
_RAY_UNITS = 10_000


@dataclass(eq=False)
class Call:
    """One call in flight: its orders and credit, the reference of its stored outputs, and its outcome."""

    orders: tuple[RunBatch, ...]
    grant: tuple[int, int, bool] | None
    payload: Any
    outcome: tuple[Reports | None, BaseException | None] | None = None


@dataclass(eq=False)
class RayWorkerHandle:
    """One worker actor."""

    id: str
    pool: int
    node: RayNode
    # The resources that it uses on that machine.
    uses: RayResources
    actor: Any
    # The bound remote method, kept because Ray makes a new object for each attribute access.
    work: Any
    pid: int | None = None
    began: float = field(default_factory=time.monotonic)
    is_up: bool = False
    # Its unfinished orders, in sequence; and those of them that were not sent yet.
    orders: dict[int, RunBatch] = field(default_factory=dict)
    outbox: list[RunBatch] = field(default_factory=list)
    # Credit that was not sent yet: the batch, the number of bytes, and whether it exceeds the budget.
    grant: tuple[int, int, bool] | None = None
    # Bytes that it may store without a request, by batch.
    reserved: Counter[int] = field(default_factory=Counter)
    # Orders that did not reach it because an input was lost.
    turned_back: set[int] = field(default_factory=set)
    # Whether it has unfinished work and only needs to be called.
    goes_on: bool = False
    calls: deque[Call] = field(default_factory=deque)
    ending: bool = False
    is_dead: bool = False
    kill_reason: str = ""


class Recruiter:
    """Start workers for the pools of a plan."""

    def __init__(self, plan: Plan, *, max_attempts: int, failure_folder: Path, ledger: KeptLedger | None) -> None:
        self._plan = plan
        self._max_attempts = max_attempts
        self._failure_folder = failure_folder
        self._ledger = ledger
        self._actor_class = ray.remote(WorkerActor)

    def start(self, action: StartWorker, node: RayNode) -> RayWorkerHandle:
        """Start a worker on a machine, without waiting until it is ready."""
        pool = self._plan.pools[action.pool]
        need = pool.resources
        gpus = node.node.gpus
        share = need.gpu_share(gpus[action.placement.gpus[0]].memory_gb) if action.placement.gpus else 0.0
        chain = ChainOrders(
            worker=action.worker,
            pool=action.pool,
            max_attempts=self._max_attempts,
            threads=max(1, ceil(need.cpus)),
            gpu_share=share,
            ledger=self._ledger.orders(action.pool) if self._ledger is not None else None,
            sys_path=tuple(sys.path),
            preludes=preludes(),
        )
        orders = ActorOrders(
            chain,
            node_id=node.id,
            node_folder=node.folder,
            failure_folder=str(self._failure_folder),
            working_folder=str(Path.cwd()),
        )
        uses = RayResources(_rounded(need.cpus), _rounded(share), need.memory_gb or 0.0)
        actor = self._actor_class.options(
            num_cpus=uses.cpus,
            num_gpus=uses.gpus,
            memory=int(uses.memory_gb * GB) or None,
            scheduling_strategy=node.affinity,
            runtime_env=pool.stages[0].runtime_env,
            max_restarts=0,
            max_task_retries=0,
        ).remote(orders)
        work = actor.work.options(num_returns=2)
        return RayWorkerHandle(action.worker, action.pool, node, uses, actor, work)


def _rounded(amount: float) -> float:
    """Round down to Ray's unit, so that shares that fill a device still fit."""
    return floor(amount * _RAY_UNITS + 1e-6) / _RAY_UNITS
