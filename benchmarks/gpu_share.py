"""Measure GPU shares and utilisation with a CPU stage that feeds a GPU stage, on a real GPU.

    python benchmarks/gpu_share.py [--tasks 400] [--gpu-memory-gb 60]

Prints how many GPU workers ran side by side, what each saw, whether one could allocate past its share, and the GPU's
utilisation as the driver reports it while both stages run.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock import DocumentBatch, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.core.worker_info import WorkerMetadata
from penstock.extras import require
from penstock.testing import ListSource, make_batch

SIZE = 4096


class Prepare(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make 16 MB of input for the GPU."""

    name = "prepare"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Make it."""
        data = np.random.default_rng(0).standard_normal(4_000_000, dtype=np.float32)
        return DocumentBatch("prepared", pa.table({"data": data}))


class Multiply(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep a share of a GPU busy."""

    name = "multiply"

    def __init__(self, log: Path, rounds: int) -> None:
        self.log = log
        self.rounds = rounds

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Note what this worker sees, and try to take more than its share."""
        torch = require("torch", "gpu", "This benchmark")
        self.weights = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
        total = torch.cuda.get_device_properties(0).total_memory
        seen = {"pid": os.getpid(), "devices": torch.cuda.device_count(), "total_gb": total / 1e9}
        for gigabytes in (20, 40, 80, 100, 120):
            try:
                torch.empty(gigabytes * 10**9, dtype=torch.uint8, device="cuda")
                seen["allocated_gb"] = gigabytes
            except torch.OutOfMemoryError:
                seen["refused_gb"] = gigabytes
                break
            finally:
                torch.cuda.empty_cache()
        with self.log.open("a") as stream:
            stream.write(json.dumps(seen) + "\n")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Multiply for a while."""
        torch = require("torch", "gpu", "This benchmark")
        data = torch.from_numpy(task.to_pyarrow()["data"].to_numpy().copy()).cuda()
        product = self.weights
        for _ in range(self.rounds):
            product = product @ self.weights
            product = product / product.norm()
        torch.cuda.synchronize()
        return DocumentBatch("done", pa.table({"sum": [float(data.sum())], "pid": [os.getpid()]}))


class Utilisation(threading.Thread):
    """Sample the GPU utilisation from the driver every 50 ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, int]] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        """Sample until stopped."""
        nvml = require("pynvml", "gpu", "This benchmark")
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        while not self.stopped.wait(0.05):
            self.samples.append((time.time(), nvml.nvmlDeviceGetUtilizationRates(handle).gpu))


def main() -> None:
    """Run the benchmark and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--gpu-memory-gb", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "seen"
        need = Resources(cpus=1, gpu_memory_gb=arguments.gpu_memory_gb)
        stages = [Prepare(), Multiply(log, arguments.rounds).with_(resources=need)]
        source = ListSource([make_batch([str(i)]) for i in range(arguments.tasks)])
        executor = StreamingExecutor(run_dir=folder, config={"logging_interval": 5})
        watcher = Utilisation()
        watcher.start()
        start = time.time()
        results = Pipeline("gpu-share", stages=[source, *stages]).run(executor)
        watcher.stopped.set()
        seconds = time.time() - start
        for line in log.read_text().splitlines():
            print("worker:", line)
        summary = json.loads((Path(folder) / "summary.json").read_text())
    busy = [value for _, value in watcher.samples]
    first = next((i for i, value in enumerate(busy) if value > 50), 0)
    last = len(busy) - next((i for i, value in enumerate(reversed(busy)) if value > 50), 0)
    steady = busy[first:last]
    workers = len({pid for task in results for pid in task.data["pid"].to_pylist()})
    print(f"{len(results)} tasks in {seconds:.1f} s on {workers} GPU workers")
    print(
        f"GPU busy {sum(steady) / max(1, len(steady)):.1f} % on average over {len(steady) * 0.05:.1f} s, once it worked"
    )
    for plan in summary["plans"]:
        print("plan:", plan["reason"], plan["workers"])


if __name__ == "__main__":
    main()
