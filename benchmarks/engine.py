"""Measure the overhead of the engine: hops between processes, large tasks, many small tasks, memory under pressure.

    python benchmarks/engine.py hop | large | many | memory | kills   (all of them without an argument)

The limits: a hop is two messages and two pickles; a large task cannot move faster than memory is copied once (the
reader maps it); tasks of a millisecond cannot be done faster than 1,000 per core and second.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from tree_memory import TreeMemory

from penstock import DocumentBatch, FileGroupTask, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.core.sizes import human_bytes
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlReader, JsonlWriter

MB = 10**6


class Pass(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Return every task unchanged."""

    def __init__(self, name: str, cpus: float = 0.5) -> None:
        self.name = name
        self.resources = Resources(cpus=cpus)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Do nothing."""
        return task


class Spin(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep a core busy for a fixed time."""

    name = "spin"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        """Spin, and drop the task."""
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return None


class Make(ProcessingStage[FileGroupTask, DocumentBatch]):
    """Make a batch of a given size in bytes."""

    name = "make"

    def __init__(self, size: int) -> None:
        self.size = size

    def process(self, task: FileGroupTask) -> DocumentBatch:
        """Make it."""
        return DocumentBatch("made", pa.table({"data": np.zeros(self.size // 8)}))


class Slow(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Take longer than the stage before it."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        """Look at the data, wait, and drop it."""
        task.to_pyarrow()["data"].to_numpy().sum()
        time.sleep(self.seconds)
        return None


def timed(stages: list[ProcessingStage], cpus: float = 4, **settings: object) -> tuple[float, StreamingExecutor]:  # type: ignore[type-arg]
    """Run stages and return the seconds from the first plan to the end, without the start-up of processes."""
    with tempfile.TemporaryDirectory() as folder:
        executor = StreamingExecutor(cpus=cpus, show_progress=False, run_dir=folder, **settings)  # type: ignore[arg-type]
        start = time.perf_counter()
        Pipeline("engine", stages=stages).run(executor)
        return time.perf_counter() - start, executor


def cpu_seconds() -> float:
    """Return the CPU time of the driver so far."""
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


def hop() -> None:
    """Measure the time of a hop of a small task, from two chains that differ in their number of hops."""
    tasks = [make_batch([f"document {i}"]) for i in range(6000)]
    source = ListSource(tasks)

    def chain(pools: int) -> list[ProcessingStage]:  # type: ignore[type-arg]
        # Another declared need makes another pool, so every stage is a border.
        return [source, *(Pass(f"pass-{i}", cpus=0.25 if i % 2 else 0.2).with_(num_workers=1) for i in range(pools))]

    timed(chain(1))  # what is loaded once per process is loaded now
    for kind, ledger in (("no receipts", False), ("with receipts", True)):
        before = cpu_seconds()
        short, _ = timed(chain(1), ledger=ledger)
        between = cpu_seconds()
        long, _ = timed(chain(5), ledger=ledger)
        hops = 4 * len(tasks)
        per_hop = (long - short) / hops
        driver = ((cpu_seconds() - between) - (between - before)) / hops
        print(
            f"hop, {kind}: {per_hop * 1e3:.3f} ms for a small task "
            f"({len(tasks)} tasks; 1 pool {short:.2f} s, 5 {long:.2f} s)"
        )
        print(f"     wall time, pools side by side; the driver takes {driver * 1e3:.3f} ms of CPU for a hop")


def large() -> None:
    """Measure how fast 64 MB tasks move between processes, against copying the same bytes in one."""
    size, count = 64 * MB, 60
    groups = [FileGroupTask("made", [f"{i}"]) for i in range(count)]
    stages = [ListSource(groups), Make(size).with_(num_workers=1), Slow(0.0).with_(num_workers=1, name="read")]
    seconds, _ = timed(stages)
    few, _ = timed([ListSource(groups[:4]), *stages[1:]])
    rate = size * (count - 4) / (seconds - few)
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    np.copyto(target, source)
    start = time.perf_counter()
    for _ in range(5):
        np.copyto(target, source)
    copy_rate = 5 * size / (time.perf_counter() - start)
    print(
        f"large: 64 MB tasks move at {human_bytes(rate)}/s (made, stored, mapped and read); "
        f"memcpy {human_bytes(copy_rate)}/s, {rate / copy_rate:.2f} of it"
    )


def many() -> None:
    """Measure 100,000 tasks of a millisecond on two cores."""
    count = 100_000
    tasks = [make_batch([str(i)]) for i in range(100)]

    class Burst(ProcessingStage[DocumentBatch, DocumentBatch]):
        """Makes a thousand tasks of one."""

        name = "burst"

        def process(self, task: DocumentBatch) -> list[DocumentBatch]:
            """Return many."""
            return [DocumentBatch("b", task.to_pyarrow()) for _ in range(1000)]

    driver = psutil.Process()
    before = driver.cpu_times()
    seconds, _ = timed([ListSource(tasks), Burst().with_(num_workers=1), Spin(0.001)], cpus=3)
    used = driver.cpu_times()
    cpu = used.user + used.system - before.user - before.system
    print(
        f"many: {count:,} tasks of 1 ms in {seconds:.1f} s ({count / seconds:,.0f}/s; two cores could do 2,000/s), "
        f"driver {cpu / seconds:.2f} cores"
    )


def memory() -> None:
    """Measure bytes in flight and resident memory where the second stage is slow, over 20 times the budget."""
    budget, size = 100 * MB, 8 * MB
    for count in (300, 900):  # three times the input must not take more memory
        groups = [FileGroupTask("made", [f"{i}"]) for i in range(count)]
        stages = [ListSource(groups), Make(size).with_(num_workers=1), Slow(0.03)]
        tree = TreeMemory()
        tree.start()
        seconds, executor = timed(stages, cpus=3, memory_budget=budget)
        tree.stopped.set()
        half = len(tree.samples) // 2
        summary = executor.last_summary
        assert summary is not None
        print(
            f"memory: {human_bytes(size * count)} through a budget of {human_bytes(budget)} in {seconds:.1f} s; "
            f"at most {human_bytes(summary.peak_bytes or 0)} in flight; resident memory of the whole process tree at "
            f"most {human_bytes(max(tree.samples[:half]))} in the first half, "
            f"{human_bytes(max(tree.samples[half:]))} in the second"
        )


class Suicidal(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Kill the worker at random moments, up to a number of times."""

    name = "suicidal"

    def __init__(self, marks: Path, kills: int) -> None:
        self.marks = marks
        self.kills = kills

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Kill, or pass on."""
        done = len(list(self.marks.iterdir()))
        if done < self.kills and random.random() < 0.5:
            (self.marks / f"{done}-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task


def kills() -> None:
    """Kill workers 200 times at random moments of a run, and compare its output with an undisturbed one.

    Half of all attempts die; only the number of cores is configured.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        for i in range(500):
            lines = [json.dumps({"id": f"{i}-{j}", "text": f"document {i} {j}"}) for j in range(20)]
            (folder / f"in/{i:03}.jsonl").write_text("\n".join(lines) + "\n")
        outputs = []
        for target, number in (("calm", 0), ("wild", 200)):
            (folder / f"marks-{target}").mkdir()
            stage = Suicidal(folder / f"marks-{target}", number)
            stages = [JsonlReader(str(folder / "in")), stage, JsonlWriter(str(folder / target))]
            seconds, _ = timed(stages, cpus=2)
            killed = len(list((folder / f"marks-{target}").iterdir()))
            outputs.append({path.name: path.read_bytes() for path in (folder / target).glob("*.jsonl")})
            print(f"kills: {killed} workers killed, {len(outputs[-1])} files written in {seconds:.1f} s")
        print("kills: output equal, byte for byte" if outputs[0] == outputs[1] else "kills: OUTPUT DIFFERS")


MEASURES = {"hop": hop, "large": large, "many": many, "memory": memory, "kills": kills}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or MEASURES:
        MEASURES[wanted]()
