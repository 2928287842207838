"""In every backend, the same events at the same times lead to the same decisions."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock import DocumentBatch, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.backends.backend import drive
from penstock.backends.simulated import simulate as simulated
from penstock.backends.simulated.law import Law, constant
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.executors import streaming_run
from penstock.schedule.actions import Action, RunBatch, StartWorker
from penstock.schedule.events import Event, Output, WorkerLost
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.staffing import PlanRecord
from penstock.schedule.state import PoolSpec, Settings
from penstock.testing import ListSource, make_batch


@dataclass
class Log:
    """All events and actions of one run, and the arguments of its scheduler."""

    made_of: tuple[Sequence[PoolSpec], Cluster, Settings]
    sources: Sequence[Output] = ()
    began_at: float = 0.0
    heard: list[tuple[float, Sequence[Event]]] = field(default_factory=list)
    said: list[Action] = field(default_factory=list)
    plans: list[PlanRecord] = field(default_factory=list)


class Recorded(Scheduler):
    """A scheduler that records its events and actions."""

    log: Log

    def __init__(self, specs: Sequence[PoolSpec], cluster: Cluster, settings: Settings) -> None:
        super().__init__(specs, cluster, settings)
        type(self).log = self.log = Log((specs, cluster, settings), plans=self.plans)

    def begin(self, now: float, outputs: Sequence[Output]) -> list[Action]:
        self.log.began_at, self.log.sources = now, outputs
        return self._said(super().begin(now, outputs))

    def handle(self, now: float, *events: Event) -> list[Action]:
        self.log.heard.append((now, events))
        return self._said(super().handle(now, *events))

    def _said(self, actions: list[Action]) -> list[Action]:
        self.log.said += actions
        return actions


@dataclass
class Replay:
    """A backend that replays recorded events, independent of the actions it receives."""

    heard: list[tuple[float, Sequence[Event]]]
    said: list[Action] = field(default_factory=list)
    time: float = 0.0

    def now(self) -> float:
        return self.time

    def carry_out(self, action: Action) -> None:
        self.said.append(action)

    def wait(self, until: float) -> Sequence[Event]:
        self.time, events = self.heard.pop(0)
        return events


class Sleeper(ProcessingStage[DocumentBatch, DocumentBatch]):
    def __init__(self, name: str, seconds: float, cpus: float, dies_at: Path | None = None) -> None:
        self.name = name
        self.seconds = seconds
        self.resources = Resources(cpus=cpus, gpus=1)
        self.dies_at = dies_at

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(self.seconds)
        if self.dies_at is not None and not self.dies_at.exists():
            self.dies_at.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task


def run_locally(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Three sleeping stages on worker processes with claimed GPUs; one worker dies."""
    monkeypatch.setattr(streaming_run, "Scheduler", Recorded)
    source = ListSource([make_batch([f"document {i}"]) for i in range(30)])
    stages = [Sleeper("fast", 0.01, 0.1), Sleeper("slow", 0.08, 0.2, folder / "died"), Sleeper("medium", 0.04, 0.3)]
    executor = StreamingExecutor(
        cpus=16, gpus=5, run_dir=str(folder / "run"), show_progress=False, memory_budget=20_000
    )
    Pipeline("sleep", stages=[source, *stages]).run(executor)
    assert any(isinstance(event, WorkerLost) for _, events in Recorded.log.heard for event in events)
    return Recorded.log


def run_simulated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """The same in virtual time, with workers that die at random."""
    monkeypatch.setattr(simulated, "Scheduler", Recorded)
    specs = [PoolSpec(name, Resources(gpus=1)) for name in ("fast", "slow", "medium")]
    laws = [Law(constant(s), output_bytes=lambda order: 1_000, death_probability=0.05) for s in (0.01, 0.08, 0.04)]
    machine = Cluster((Node("here", 16, 64, (Gpu(80),) * 5),))
    simulated.simulate(specs, laws, machine, 30, Settings(memory_budget=20_000))
    assert any(isinstance(event, WorkerLost) for _, events in Recorded.log.heard for event in events)
    return Recorded.log


BACKENDS: dict[str, Callable[[Path, Any], Log]] = {"local": run_locally, "simulated": run_simulated}


@pytest.mark.parametrize("backend", BACKENDS)
def test_recorded_run_replays_to_the_same_actions_and_plans(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = BACKENDS[backend](tmp_path, monkeypatch)
    assert any(isinstance(action, StartWorker) for action in log.said)
    assert sum(isinstance(action, RunBatch) for action in log.said) > 90
    scheduler, replay = Scheduler(*log.made_of), Replay(list(log.heard))
    drive(scheduler, replay, scheduler.begin(log.began_at, log.sources))
    assert replay.said == log.said
    assert scheduler.plans == log.plans
    assert not replay.heard, "the replay ends where the recorded run did"
