"""Measure balancing: three stages of 0.25, 1 and 0.5 seconds per task on seven GPUs.

    python benchmarks/balancing.py [--tasks 200] [--peer-python PATH_TO_A_PYTHON_WITH_NEMO_CURATOR]

The GPUs are simulated: the stages sleep, so any machine will do. With one worker each (three GPUs) the slow stage
allows 1 task/s; with seven GPUs, distributed 1 : 4 : 2, every stage sustains 4 tasks/s. Prints tasks per second in the
steady part of the run (between the 10th and the 90th percent of the results) and over the whole run. With a peer, the
same tasks run on the executors of NeMo Curator, on a Ray instance with as many (claimed) CPUs, and the ratio is
printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from penstock import DocumentBatch, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.testing import ListSource, make_batch

SECONDS = (0.25, 1.0, 0.5)
PEERS = ("XennaExecutor", "RayDataExecutor", "RayActorPoolExecutor")


class Sleeper(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Sleep for a fixed time and record when each task was done."""

    resources = Resources(cpus=0.1, gpus=1)

    def __init__(self, name: str, seconds: float, log: Path | None = None) -> None:
        self.name = name
        self.seconds = seconds
        self.log = log

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Sleep."""
        time.sleep(self.seconds)
        if self.log is not None:
            with self.log.open("a") as stream:
                stream.write(f"{time.time()}\n")
        return task


def measure(gpus: int, tasks: int, workers: int | None = None) -> dict[str, float]:
    """Run the three stages, with fixed worker counts or automatic balancing; return tasks per second."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "done"
        stages = [Sleeper("fast", SECONDS[0]), Sleeper("slow", SECONDS[1]), Sleeper("medium", SECONDS[2], log)]
        stages = [stage.with_(num_workers=workers) for stage in stages]
        source = ListSource([make_batch([f"document {i}"]) for i in range(tasks)])
        executor = StreamingExecutor(
            cpus=16, gpus=gpus, gpu_memory_gb=80, run_dir=folder, show_progress=False, profile=False
        )
        start = time.time()
        Pipeline("balancing", stages=[source, *stages]).run(executor)
        whole = time.time() - start
        times = sorted(float(line) for line in log.read_text().split())
        summary = json.loads((Path(folder) / "summary.json").read_text())
    first, last = len(times) // 10, 9 * len(times) // 10
    steady = (last - first) / (times[last] - times[first])
    applied = [plan for plan in summary["plans"] if plan["applied"]]
    return {"steady": steady, "whole": tasks / whole, "seconds": whole, "plans": len(applied)}


def measure_peer(python: str, tasks: int, executor: str) -> float | None:
    """Run the same tasks on an executor of NeMo Curator, in its own environment; return the seconds, or None."""
    command = [python, str(Path(__file__).with_name("balancing_peer.py")), str(tasks), executor]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10 * tasks / 4)
    except subprocess.TimeoutExpired:
        return None
    found = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not found:
        print(done.stderr[-2000:], file=sys.stderr)
    return float(found[0]) if found else None


def main() -> None:
    """Run the benchmark and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--peer-python")
    arguments = parser.parse_args()
    alone = measure(3, 30, workers=1)
    print(f"3 GPUs, one worker each: {alone['steady']:.2f} tasks/s (1 is what the slow stage allows)")
    ours = measure(7, arguments.tasks)
    print(
        f"7 GPUs, nothing tuned:   {ours['steady']:.2f} tasks/s steady ({ours['steady'] / 4:.2f} of the possible 4), "
        f"{ours['whole']:.2f} over the whole run of {ours['seconds']:.1f} s, {ours['plans']} plans applied"
    )
    for name in PEERS if arguments.peer_python else ():
        seconds = measure_peer(arguments.peer_python, arguments.tasks, name)
        if seconds is None:
            print(f"{name}: did not finish")
            continue
        rate = arguments.tasks / seconds
        print(
            f"{name}: {rate:.2f} tasks/s over {seconds:.1f} s; Penstock takes {ours['seconds'] / seconds:.2f} of that"
        )


if __name__ == "__main__":
    main()
