"""Check a recorded run independently: verify the guarantees of the scheduler from the log alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from penstock.backends.simulated.trace import Trace
from penstock.core.cluster import Cluster, Node
from penstock.core.resources import Resources
from penstock.schedule.actions import DeadLetter, KillWorker, RunBatch, StartWorker, StopWorker
from penstock.schedule.events import BatchDone, BatchFailed, InputsLost, NodeAdded, NodeLost, WorkerGone, WorkerLost
from penstock.schedule.nodes import Placement
from penstock.schedule.state import PoolSpec, Settings

SLACK = 1e-6


@dataclass
class Usage:
    """The used resources of one node."""

    node: Node
    cpus: float = 0.0
    memory_gb: float = 0.0
    gpus: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, need: Resources, placement: Placement, sign: int) -> None:
        self.cpus += sign * need.cpus
        self.memory_gb += sign * (need.memory_gb or 0.0)
        for gpu in placement.gpus:
            share = need.gpu_memory_gb / self.node.gpus[gpu].memory_gb if need.gpu_memory_gb else min(need.gpus, 1.0)
            self.gpus[gpu] += sign * share

    def check(self) -> None:
        assert self.cpus <= self.node.cpus + SLACK, f"{self.cpus} CPUs in use on {self.node}"
        assert self.memory_gb <= self.node.memory_gb + SLACK, f"{self.memory_gb} GB in use on {self.node}"
        for gpu, share in self.gpus.items():
            assert share <= 1 + SLACK, f"{share} of GPU {gpu} in use on {self.node}"


def check_placement(need: Resources, placement: Placement) -> None:
    """A worker has as many different GPUs as it needs."""
    wanted = int(need.gpus) if need.gpus > 1 else int(need.requires_gpu)
    assert len(set(placement.gpus)) == len(placement.gpus) == wanted


def check_resources(
    trace: Trace, specs: Sequence[PoolSpec], cluster: Cluster, stop_timeout_s: float = Settings.stop_timeout_s
) -> None:
    """Property 1: no node and no GPU is ever overbooked; starting, draining and stopping workers count."""
    usage = {node.name: Usage(node) for node in cluster.nodes}
    alive: dict[str, StartWorker] = {}
    # A killed worker whose end is not reported counts as ended after a while.
    gone_at: dict[str, float] = {}

    def release(worker: str) -> None:
        start = alive.pop(worker)
        usage[start.placement.node].add(specs[start.pool].need, start.placement, -1)

    for time, entry in trace.log:
        for worker in [worker for worker, at in gone_at.items() if at <= time + SLACK and worker in alive]:
            release(worker)
        match entry:
            case KillWorker(worker):
                gone_at.setdefault(worker, time + stop_timeout_s)
            case StartWorker(worker, pool, placement):
                check_placement(specs[pool].need, placement)
                alive[worker] = entry
                usage[placement.node].add(specs[pool].need, placement, 1)
                usage[placement.node].check()
            case WorkerGone(worker) | WorkerLost(worker):
                release(worker)
            case NodeLost(name):
                alive = {worker: start for worker, start in alive.items() if start.placement.node != name}
                del usage[name]
            case NodeAdded(node):
                usage[node.name] = Usage(node)
    assert not set(alive) - set(gone_at), "workers were left behind"


def check_no_stop_in_mid_task(trace: Trace, fatal: str | None = None) -> None:
    """Property 8: a worker that is told to stop has no batch; only hanging workers are killed."""
    hands: dict[str, set[int]] = defaultdict(set)
    for _, entry in trace.log:
        match entry:
            case RunBatch(worker, batch):
                hands[worker].add(batch)
            case BatchDone(worker, batch) | BatchFailed(worker, batch) | InputsLost(worker, batch):
                hands[worker].discard(batch)
            case StopWorker(worker):
                assert not hands[worker], f"{worker} was stopped with {hands[worker]} in hand"
            case KillWorker(worker, reason):
                idle_reasons = ("was not ready after", "did not stop within", "the run ends")
                allowed = ("took longer",) if hands[worker] else ("took longer", *idle_reasons)
                assert reason == fatal or any(words in reason for words in allowed), reason


def check_one_batch_per_item(trace: Trace) -> None:
    """Property 4: an item is in one batch only, however often that is retried, and runs on one worker at a time."""
    batch_of: dict[str, int] = {}
    running: dict[int, str] = {}
    for _, entry in trace.log:
        match entry:
            case RunBatch(worker, batch, items):
                assert batch not in running, f"batch {batch} was given to {worker} and {running.get(batch)}"
                running[batch] = worker
                for item in items:
                    assert batch_of.setdefault(item, batch) == batch
            case BatchDone(_, batch) | BatchFailed(_, batch) | InputsLost(_, batch):
                running.pop(batch, None)
            case WorkerGone(worker) | WorkerLost(worker) | KillWorker(worker):
                running = {batch: who for batch, who in running.items() if who != worker}
            case NodeLost():
                running = {}  # other copies are not assigned again before they end: checked by results being unique
    assert len(set(trace.results)) == len(trace.results)


def check_workers_are_used(trace: Trace, started_before: float = inf) -> None:
    """Property 7: no worker that was started before a time ends without having run a batch."""
    started = {entry.worker for at, entry in trace.log if isinstance(entry, StartWorker) and at < started_before}
    used = {entry.worker for _, entry in trace.log if isinstance(entry, RunBatch)}
    assert not started - used, f"started for nothing: {sorted(started - used)}"


def batches(trace: Trace, pool: int) -> set[tuple[str, ...]]:
    """Return which items formed a batch in a pool."""
    runs = (entry for _, entry in trace.log if isinstance(entry, RunBatch) and not entry.probe)
    return {run.items for run in runs if run.items[0].startswith(f"{pool}/")}


def dead_rows(trace: Trace, rows: int) -> dict[tuple[int, str], set[int]]:
    """Return the rows that were given up, by pool and item; every item has ``rows`` rows."""
    dead: dict[tuple[int, str], set[int]] = defaultdict(set)
    for letter in trace.dead:
        for position, key in enumerate(letter.items):
            first = position * rows
            mine = range(rows) if letter.rows is None else [r - first for r in letter.rows if first <= r < first + rows]
            if mine:
                dead[letter.pool, key.split("/", 1)[1]] |= set(mine)
    return dead


def accidents_of(trace: Trace) -> Counter[str]:
    """Return how often a worker was killed from outside, or hung, while it ran an item, without a bad row."""
    hands: dict[str, list[RunBatch]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for _, entry in trace.log:
        match entry:
            case RunBatch(worker):
                hands[worker].append(entry)
            case BatchDone(worker, batch) | BatchFailed(worker, batch) | InputsLost(worker, batch):
                hands[worker] = [run for run in hands[worker] if run.batch != batch]
            case WorkerLost(worker, reason) | KillWorker(worker, reason):
                counts.update(hands[worker][0].items if hands[worker] and reason != "died" else ())
                hands[worker] = []
    return counts


def letters_of(trace: Trace) -> list[DeadLetter]:
    """Return the dead letters in the log."""
    return [entry for _, entry in trace.log if isinstance(entry, DeadLetter)]
