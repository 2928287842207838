"""Measure the overhead of the Ray backend, and its balancing.

    python benchmarks/ray_backend.py [hop] [many] [balancing] [text] [plan] [--tasks 200] [--peer-python PYTHON]
        [--corpus corpus.parquet] [--documents 4000]

hop        wall time per task and pool for empty tasks: the cost of a hop over Ray
many       50,000 empty tasks through three pools: CPU and memory of the driver. A faster hop also shortens the run, so
           the time per hop says more than the share of a core
balancing  200 tasks of 0.25, 1 and 0.5 s on seven slots; the limit is 4 tasks/s, without the start of workers and the
           way of the first task. Penstock puts stages with the same needs into one pool, so it is also measured with
           three stages that must be in separate pools
text       the 28 filters of the English recipe over a corpus (Parquet with ``id`` and ``text``), JSONL to JSONL; with
           fewer than five (claimed) CPUs one of the peer's executors refuses the job
plan       time of one decision with 30 pools on 1,000 machines (in the simulator)

Without an argument all of them run; text only with a corpus. With a Python that has nemo-curator, its three executors
also run balancing and text, each on a Ray instance of the same size that is ready when the clock starts. The script
starts and stops Ray with seven claimed CPUs and GPUs.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import ray
from balancing import PEERS, SECONDS, measure_peer
from text_filters import FILTERS, MB, NEMO, kept_ids, run_ours, run_peer, write_corpus

from penstock import DocumentBatch, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.schedule.events import Output
from penstock.schedule.scheduler import Scheduler
from penstock.schedule.state import PoolSpec, Settings
from penstock.testing import make_batch

SLOTS = 7
TEXT_SLOTS = 5


class Pass(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Do nothing, in a separate pool."""

    def __init__(self, name: str, cpus: float) -> None:
        self.name = name
        self.resources = Resources(cpus=cpus)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the task."""
        return task


class Sleeper(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Sleep for a fixed time and record when each task was done."""

    def __init__(self, name: str, seconds: float, slot: Resources, log: Path | None = None) -> None:
        self.name = name
        self.seconds = seconds
        self.resources = slot
        self.log = log

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Sleep."""
        time.sleep(self.seconds)
        if self.log is not None:
            with self.log.open("a") as stream:
                stream.write(f"{time.time()}\n")
        return task


def executor(*, profile: bool = True) -> StreamingExecutor:
    return StreamingExecutor(backend="ray", show_progress=False, profile=profile)


def three_pools() -> list[ProcessingStage[DocumentBatch, DocumentBatch]]:
    return [Pass(name, cpus).with_(num_workers=1) for name, cpus in (("a", 1.0), ("b", 1.1), ("c", 1.2))]


def hop(tasks: int = 2_000) -> None:
    given = [make_batch(["a document"]) for _ in range(tasks)]
    Pipeline("warm", stages=three_pools()).run(executor(), given[:3])
    runs = []
    for _ in range(3):
        few, many = (_seconds(given[:count]) for count in (10, tasks))
        runs.append((many - few) / (tasks - 10) / 3)
    print(f"hop: {1e3 * statistics.median(runs):.2f} ms per task and pool ({tasks} tasks, 3 pools of one worker)")


def _seconds(tasks: list[DocumentBatch]) -> float:
    start = time.perf_counter()
    Pipeline("hop", stages=three_pools()).run(executor(), list(tasks))
    return time.perf_counter() - start


class Swallow(Pass):
    """Return no output, so that results at the end of a run do not count as memory per task."""

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        """Return nothing."""
        return None


def many(tasks: int = 50_000) -> None:
    given = [make_batch(["a document"]) for _ in range(tasks)]
    gc.collect()
    myself = psutil.Process()
    seen: list[tuple[float, int]] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(1.0):
            seen.append((time.perf_counter(), myself.memory_info().rss))

    watcher = threading.Thread(target=watch)
    cpu, start = _cpu(), time.perf_counter()
    watcher.start()
    *first, last = three_pools()
    Pipeline("many", stages=[*first, Swallow(last.name, last.resources.cpus).with_(num_workers=1)]).run(
        executor(), given
    )
    wall, used = time.perf_counter() - start, _cpu() - cpu
    ended.set()
    watcher.join()
    third = len(seen) // 3
    early, late = (max(rss for _, rss in part) / 2**20 for part in (seen[third : 2 * third], seen[2 * third :]))
    print(
        f"many: {tasks} tasks x 3 pools in {wall:.0f} s; driver {used / wall:.2f} of a core "
        f"({1e3 * used / tasks / 3:.2f} ms per hop: half a core does {1.5 * tasks / used:.0f} hops/s); "
        f"its memory {early:.0f} MB in the middle, {late:.0f} MB at the end "
        f"(the {tasks} tasks given included)"
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def balancing(tasks: int, peer_python: str | None) -> None:
    balance(tasks, "one pool", [Resources(cpus=1)] * 3)
    balance(tasks, "three pools", [Resources(cpus=share, gpus=1) for share in (0.1, 0.11, 0.12)])
    if peer_python is None:
        return
    for name in PEERS:
        seconds = measure_peer(peer_python, tasks, name)
        if seconds is None:
            print(f"balancing: {name} did not finish")
        else:
            rate = tasks / seconds
            print(f"balancing: {name} {rate:.2f} tasks/s over the whole {seconds:.1f} s ({rate / 4:.2f})")


def balance(tasks: int, pools: str, slots: list[Resources]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "done"
        names = ("fast", "slow", "medium")
        stages = [
            Sleeper(name, seconds, slot, log if name == "medium" else None)
            for name, seconds, slot in zip(names, SECONDS, slots, strict=True)
        ]
        given = [make_batch([f"document {i}"]) for i in range(tasks)]
        with ray_of(SLOTS):
            start = time.time()
            Pipeline("balancing", stages=stages).run(executor(profile=False), given)
            whole = time.time() - start
        times = sorted(float(line) for line in log.read_text().split())
    first, last = len(times) // 10, 9 * len(times) // 10
    steady = (last - first) / (times[last] - times[first])
    print(
        f"balancing: Penstock ({pools}) {steady:.2f} tasks/s steady ({steady / 4:.2f} of the possible 4), "
        f"{tasks / whole:.2f} over the whole {whole:.1f} s ({tasks / whole / 4:.2f})"
    )


def plan(nodes: int = 1_000, pools: int = 30) -> None:
    gpus = (Gpu(80.0),) * 8
    cluster = Cluster(tuple(Node(f"n{i}", 64, 512, gpus if i % 2 else ()) for i in range(nodes)))
    needs = [Resources(gpus=1), Resources(gpus=0.25), Resources(cpus=2), Resources(cpus=1)]
    specs = [PoolSpec(f"p{i}", needs[i % 4], expected_seconds=0.1 + i / 10) for i in range(pools)]
    scheduler = Scheduler(specs, cluster, Settings(memory_budget=2**40))
    scheduler.begin(0.0, [Output(f"0_{i}", (0, i), 0) for i in range(50_000)])
    times = []
    for second in range(1, 21):
        scheduler.state.ask_for_plan("asked")
        start = time.perf_counter()
        scheduler.staffing.ask(float(second), "asked")
        scheduler.staffing.decide(float(second), scheduler._is_runnable)
        times.append(time.perf_counter() - start)
    print(
        f"plan: {1e3 * statistics.median(times):.1f} ms per decision ({pools} pools, {nodes} machines, "
        f"{len(scheduler.workers)} workers)"
    )


def text(corpus: str, documents: int, peer_python: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        megabytes = write_corpus(corpus, work / "in", 0, documents) / MB
        with ray_of(TEXT_SLOTS):
            Pipeline("warm", stages=three_pools()[:1]).run(executor(), [make_batch(["a document"])])
            ours = run_ours(work / "in", work / "ours", executor=executor(profile=False))
        print(f"text: {megabytes:.0f} MB; Penstock {ours:.1f} s ({megabytes / ours:.1f} MB/s)")
        for name in PEERS if peer_python is not None else ():
            request = [str(work / "in"), str(work / name), FILTERS, TEXT_SLOTS, name]
            _, seconds = run_peer(str(peer_python), NEMO, request)
            apart = len(kept_ids(work / "ours") ^ kept_ids(work / name))
            print(
                f"text: {name} {seconds:.1f} s ({megabytes / seconds:.1f} MB/s), {seconds / ours:.1f} times as long; "
                f"{apart} of {documents} documents kept by one only"
            )


@contextmanager
def ray_of(slots: int) -> Iterator[None]:
    """Start a Ray instance that claims a number of CPUs and GPUs, and stop it."""
    ray.init(
        address="local",
        num_cpus=slots,
        num_gpus=slots,
        labels={"penstock/gpu-memory-gb": "80"},
        include_dashboard=False,
        object_store_memory=200_000_000,
        logging_level="ERROR",
        log_to_driver=False,
    )
    try:
        yield
    finally:
        ray.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=[[], "hop", "many", "balancing", "text", "plan"])
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--peer-python")
    parser.add_argument("--corpus", help="a Parquet file with the columns 'id' and 'text'")
    parser.add_argument("--documents", type=int, default=4000, help="number of documents of the corpus")
    arguments = parser.parse_args()
    what = arguments.what or ["plan", "hop", "many", "balancing", *(["text"] if arguments.corpus else [])]
    if "plan" in what:
        plan()
    if "hop" in what:
        with ray_of(SLOTS):
            hop()
    if "many" in what:
        with ray_of(SLOTS):
            many()
    if "balancing" in what:
        balancing(arguments.tasks, arguments.peer_python)
    if "text" in what:
        text(arguments.corpus, arguments.documents, arguments.peer_python)


if __name__ == "__main__":
    main()
