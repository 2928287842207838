"""A worker actor as the driver sees it, and how one is started on the machine chosen for it."""

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
_GRAIN = 10_000


@dataclass(eq=False)
class Call:
    """One call on its way: the orders and the credit it carries, where what it stores will lie, and what came of it."""

    orders: tuple[RunBatch, ...]
    grant: tuple[int, int, bool] | None
    shelf: Any
    outcome: tuple[Reports | None, BaseException | None] | None = None


@dataclass(eq=False)
class RayWorkerHandle:
    """One worker actor."""

    id: str
    pool: int
    node: RayNode
    # What it has of that machine.
    uses: RayResources
    actor: Any
    # How it is called: Ray makes a new thing of a method each time it is named.
    work: Any
    pid: int | None = None
    began: float = field(default_factory=time.monotonic)
    is_up: bool = False
    # What it was given and has not ended, in order; and what of that was not sent yet.
    orders: dict[int, RunBatch] = field(default_factory=dict)
    outbox: list[RunBatch] = field(default_factory=list)
    # Credit for the batch that waits for it, not sent yet: which batch, how many bytes, whether beyond the budget.
    grant: tuple[int, int, bool] | None = None
    # Bytes it may store without asking, by batch.
    reserved: Counter[int] = field(default_factory=Counter)
    # Orders that did not reach it, because something they need is gone.
    turned_back: set[int] = field(default_factory=set)
    # Whether it has more to do as soon as it is called.
    goes_on: bool = False
    calls: deque[Call] = field(default_factory=deque)
    ending: bool = False
    is_dead: bool = False
    kill_reason: str = ""


class Recruiter:
    """Starts workers for the pools of a plan."""

    def __init__(self, plan: Plan, *, max_attempts: int, failure_folder: Path, ledger: KeptLedger | None) -> None:
        self._plan = plan
        self._max_attempts = max_attempts
        self._failure_folder = failure_folder
        self._ledger = ledger
        self._actor_class = ray.remote(WorkerActor)

    def start(self, action: StartWorker, node: RayNode) -> RayWorkerHandle:
        """Begin to start a worker on a machine."""
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
    """Round to what Ray can count, never up: shares that fill a device must still fit."""
    return floor(amount * _GRAIN + 1e-6) / _GRAIN
