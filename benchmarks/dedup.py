"""Measure speed, quality and memory of deduplication, and compare with peers.

    python benchmarks/dedup.py speed --data DATA --peer-python PYTHON   (fuzzy, against datatrove's MinHash)
    python benchmarks/dedup.py exact --data DATA --peer-python PYTHON   (against polars' unique)
    python benchmarks/dedup.py quality --data DATA                      (against all pairs of a sample)
    python benchmarks/dedup.py linear --data DATA                       (50 to 400 MB: seconds per MB)
    python benchmarks/dedup.py memory --data DATA                       (twenty times the budget)

DATA is a Parquet file with columns ``id`` and ``text``, preferably with many versions of each page. PYTHON belongs to
an environment with datatrove, spacy and polars.

The limit of the fuzzy workflow: every byte is parsed three times (sign, gather, remove), hashed once for its text and
once for its shingles; a signature costs one multiply-add and one minimum per permutation and shingle.
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock import StreamingExecutor
from penstock.dedup.document_ids import ID_FIELD
from penstock.dedup.exact_workflow import ExactDeduplicationWorkflow
from penstock.dedup.fuzzy import FuzzyDeduplicationWorkflow
from penstock.kernels.jaccard import Comparing
from penstock.kernels.shingles import Shingling

PEER = Path(__file__).with_name("dedup_peer.py")
# More than either side of the comparison of exact deduplication holds, of one copy of the data.
_TOUCHED = 3 << 29


class Watch:
    """Measure wall time, CPU time and memory of this process and its descendants.

    The CPU time of ended processes is counted by the parent that waited for them. Some pools kill their processes
    without waiting, so processes are also sampled, and the larger figure is used. Sampling memory slows a process down,
    so it is not done where time is measured.
    """

    def __init__(self, *, memory: bool = True) -> None:
        self._looks_at_memory = memory

    def __enter__(self) -> Watch:
        self._done = threading.Event()
        self._seen: dict[tuple[int, float], float] = {}
        self.peak = 0
        self._look()
        self.before, self._used, self._seen_before = self.peak, self._waited_for(), sum(self._seen.values())
        self._start = time.perf_counter()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self._done.set()
        self._thread.join()
        self._look()
        self.cpu_seconds = max(self._waited_for() - self._used, sum(self._seen.values()) - self._seen_before)

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s ({self.cpu_seconds:.1f} s of processors)"

    def _watch(self) -> None:
        while not self._done.wait(0.02 if self._looks_at_memory else 0.25):  # ten documents take a moment
            self._look()

    def _look(self) -> None:
        total = 0
        for process in _processes():
            try:
                self._seen[process.pid, process.create_time()] = sum(process.cpu_times()[:2])
                if self._looks_at_memory:
                    total += process.memory_full_info().pss  # what processes share, as after a fork, counts once
            except psutil.Error:  # gone meanwhile
                continue
        self.peak = max(self.peak, total)

    def _waited_for(self) -> float:
        return sum(sum(process.cpu_times()[:4]) for process in _processes())


def _processes() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def write_jsonl(table: pa.Table, folder: Path, files: int = 8, limit_mb: float | None = None) -> float:
    """Write documents as JSON Lines into several files of equal size; return megabytes of text."""
    folder.mkdir(parents=True)
    streams = [(folder / f"{number:02}.jsonl").open("w") for number in range(files)]
    written = 0
    share = (limit_mb or 1e9) * 1e6 / files
    per_file = [0] * files
    at = 0
    for batch in table.select(["id", "text"]).to_batches(max_chunksize=1000):
        for row in batch.to_pylist():
            if per_file[at] > min(share, table["text"].nbytes / files) and at + 1 < files:
                at += 1
            if per_file[at] > share:
                break
            streams[at].write(json.dumps(row, ensure_ascii=False) + "\n")
            size = len((row["text"] or "").encode())
            per_file[at] += size
            written += size
    for stream in streams:
        stream.close()
    return written / 1e6


def fuzzy(source: Path, work: Path, *, memory: bool = False, **settings: object) -> tuple[Watch, dict[str, object]]:
    """Run the fuzzy workflow with removal; return its time and result."""
    workflow = FuzzyDeduplicationWorkflow(
        str(work / "cache"), str(work / "out"), str(source), perform_removal=True, show_progress=False,
        max_removed_share=1.0, **{"input_filetype": "jsonl", **settings},  # type: ignore[arg-type]
    )  # fmt: skip
    with Watch(memory=memory) as watch:
        result = workflow.run(StreamingExecutor(show_progress=False))
    return watch, result.metadata


def speed(data: Path, peer: str | None, peer_mb: float) -> None:
    table = pq.read_table(data)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_jsonl(table, folder / "in")
        same = {"word_ngrams": 5, "num_bands": 14, "minhashes_per_band": 8, "use_64_bit_hash": True}
        for attempt in ("first run, kernels compiled if need be", "second run"):
            ours, found = fuzzy(folder / "in", folder / attempt.split(",")[0].replace(" ", "-"), **same)
            print(
                f"ours, word 5-grams, 14 x 8, 64 bit ({attempt}): {size:.0f} MB in {ours}, "
                f"{size / ours.seconds:.1f} MB/s, {found['num_duplicates']:,} removed, each verified"
            )
        chars, found = fuzzy(folder / "in", folder / "chars")
        print(
            f"ours, character 24-grams, 20 x 13, 32 bit: {chars}, {size / chars.seconds:.1f} MB/s, "
            f"{found['num_duplicates']:,} removed"
        )
        if peer:
            theirs_size = write_jsonl(table, folder / "peer-in", limit_mb=peer_mb)
            with Watch() as theirs:
                out = subprocess.run(
                    [peer, PEER, "minhash", folder / "peer-in", folder / "peer"], capture_output=True, text=True
                )
            if out.returncode:
                raise SystemExit(out.stderr[-3000:])
            print(
                f"datatrove MinHash, the same shingles and bands, 2 workers: {theirs_size:.0f} MB in {theirs}, "
                f"{theirs_size / theirs.seconds:.2f} MB/s; {out.stdout.strip()}"
            )
            wall = theirs.seconds / theirs_size / (ours.seconds / size)
            cpu = theirs.cpu_seconds / theirs_size / (ours.cpu_seconds / size)
            print(f"ours / datatrove, per MB: {wall:.0f} times by the clock, {cpu:.0f} times by processor seconds")


def exact(data: Path, peer: str | None) -> None:
    """Compare with polars, which holds all texts in memory: inside a process, and as commands, also on more data."""
    table = pq.read_table(data)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for times in (1, 4):
            size = _write_parts(table, folder / f"in{times}", times)
            print(f"exact: {size:.0f} MB in {8 * times} Parquet files")
            os.sync()  # we wait until our output is on disk, and would wait for this as well
            if peer:
                _unique(peer, folder, times)  # so that no side is the first to touch files and memory
            if times == 1:
                _compare_inside(folder, peer)
            _compare_commands(folder, times, peer)


def _write_parts(table: pa.Table, folder: Path, times: int) -> float:
    """Write a table several times into eight files, each time with another word at the end of every text."""
    folder.mkdir()
    rows, size = -(-table.num_rows // 8), 0.0
    for copy in range(times):
        for number in range(8):
            part = table.slice(number * rows, rows)
            if copy:
                word, space = pa.scalar(str(copy), pa.large_string()), pa.scalar(" ", pa.large_string())
                texts = pc.binary_join_element_wise(part["text"].cast(pa.large_string()), word, space)
                part = part.set_column(part.column_names.index("text"), "text", texts)
            size += part["text"].nbytes / 1e6
            pq.write_table(part, folder / f"{copy}-{number}.parquet")
    return size


def _compare_inside(folder: Path, peer: str | None) -> None:
    """Compare the time of `run()` with the time of polars, imports excluded."""
    ratios = []
    for attempt in range(6):
        ours = _seconds(lambda number=attempt: _exact(folder, number), touched=_TOUCHED)
        _touch(_TOUCHED)
        theirs = float(_unique(peer, folder, 1).split()[-2]) if peer else math.nan
        print(f"exact, inside a process: ours {ours:.2f} s, polars {theirs:.2f} s")
        ratios.append(theirs / ours)
    print(
        f"exact, inside a process: polars / ours {ratios[0]:.2f} the first time, when our workers' server starts; "
        f"then {', '.join(f'{ratio:.2f}' for ratio in ratios[1:])}"
    )


def _compare_commands(folder: Path, times: int, peer: str | None) -> None:
    """Compare `penstock dedup exact` with a script that does the same with polars, imports included."""
    ratios = []
    for attempt in range(4):
        command = ["penstock", "dedup", "exact", folder / f"in{times}", folder / f"command{times}-{attempt}"]
        ours = _seconds(
            lambda command=command: subprocess.run(command, capture_output=True, check=True), touched=times * _TOUCHED
        )
        theirs = _seconds(lambda: _unique(peer, folder, times), touched=times * _TOUCHED) if peer else math.nan
        print(f"exact, as commands: ours {ours:.2f} s, polars {theirs:.2f} s")
        ratios.append(theirs / ours)
    with Watch() as watch:
        subprocess.run([*command[:-1], folder / f"watched{times}"], capture_output=True, check=True)
    held = watch.peak - watch.before
    with Watch() as watch:
        said = _unique(peer, folder, times) if peer else "not run"
    print(
        f"exact, as commands: polars / ours {', '.join(f'{ratio:.2f}' for ratio in ratios)}; "
        f"memory {held / 1e6:.0f} MB, polars ({said}) {(watch.peak - watch.before) / 1e6:.0f} MB"
    )


def _exact(folder: Path, attempt: int) -> None:
    ExactDeduplicationWorkflow(
        str(folder / f"out{attempt}"), str(folder / "in1"), perform_removal=True, show_progress=False
    ).run(StreamingExecutor(show_progress=False))


def _unique(peer: str, folder: Path, times: int) -> str:
    command = [peer, PEER, "unique", folder / f"in{times}", folder / "polars.parquet"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _touch(size: int) -> None:
    """Allocate, touch and free memory, so that the host of a virtual machine provides it.

    The host reclaims memory that is free for two seconds. Touching it again was measured at 0.7 to 2.0 ms/MB in huge
    pages instead of 0.09. That is up to a second of the compared times, and caused by neither side.
    """
    if size:
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_HUGEPAGE)
            for page in range(0, size, 2 << 20):
                memory[page] = 1


def _seconds(work: Callable[[], object], touched: int = 0) -> float:
    """Time a function without sampling memory, which would slow it down."""
    _touch(touched)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def quality(data: Path, documents: int, threshold: float) -> None:
    """Measure precision and recall against all pairs of documents of randomly chosen pages, with all their versions.

    Only pairs whose sizes rule out the similarity are skipped.
    """
    table = pq.read_table(data, columns=["id", "page", "text"])
    pages = table["page"].to_pylist()
    chosen_pages: set[str] = set()
    shuffled = sorted(set(pages))
    random.Random(0).shuffle(shuffled)
    counts: dict[str, int] = {}
    for page in pages:
        counts[page] = counts.get(page, 0) + 1
    total = 0
    for page in shuffled:
        if total >= documents:
            break
        chosen_pages.add(page)
        total += counts[page]
    sample = table.filter(pa.array([page in chosen_pages for page in pages]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(sample, folder / "sample.parquet")
        fuzzy(folder / "sample.parquet", folder, input_filetype="parquet", similarity_threshold=threshold)
        removed = pq.read_table(folder / "out/FuzzyDuplicateIds")
    rows = np.array([i & ((1 << 40) - 1) for i in removed[ID_FIELD].to_pylist()])
    kept = np.array([i & ((1 << 40) - 1) for i in removed["kept_id"].to_pylist()])
    texts = [np.frombuffer(text.encode(), np.uint8) for text in sample["text"].to_pylist()]
    comparing = Comparing(Shingling(24))
    wrong = sum(
        comparing.similarity(comparing.shingles(texts[stays]), texts[goes]) < threshold
        for goes, stays in zip(rows, kept, strict=True)
    )
    gone = set(rows.tolist())
    print(f"{len(texts):,} documents, all versions of {len(chosen_pages)} pages; {len(rows):,} removed at {threshold}")
    print(
        f"precision: {1 - wrong / max(1, len(rows)):.4f} ({wrong} of {len(rows):,} removed pairs below the threshold)"
    )
    pairs = missed = 0
    sets = [comparing.shingles(text) for text in texts]
    order = np.argsort([s.count for s in sets])
    for position, i in enumerate(order):
        for j in order[position + 1 :]:
            if sets[i].count < threshold * sets[j].count:
                break
            if comparing.similarity(sets[j], texts[i]) >= threshold:
                pairs += 1
                missed += int(i) not in gone and int(j) not in gone
    print(f"recall: {1 - missed / max(1, pairs):.4f} ({missed:,} of {pairs:,} similar pairs have both documents left)")


def linear(data: Path) -> None:
    """Time inputs of growing size; the time for ten documents is the fixed cost, and is reported separately.

    Pages are shuffled, with all their versions, because in the original order some parts have more similar pages.
    """
    table = pq.read_table(data)
    if "page" in table.column_names:
        numbers = table["page"].combine_chunks().dictionary_encode().indices.to_numpy()
        lot = np.random.default_rng(0).permutation(numbers.max() + 1)
        table = table.take(pa.array(np.argsort(lot[numbers], kind="stable")))
    rates = []
    with tempfile.TemporaryDirectory() as name:
        write_jsonl(table.slice(0, 10), Path(name) / "tiny", files=1)
        write_jsonl(table, Path(name) / "warm", limit_mb=20)
        fuzzy(Path(name) / "warm", Path(name) / "warmed")  # compiles what has to be
        starts = [fuzzy(Path(name) / "tiny", Path(name) / f"start{attempt}")[0] for attempt in range(4)]
        start = min(starts, key=lambda run: run.seconds)
        print(f"linear: ten documents in {start}")
        for megabytes in (50, 100, 200, 400):
            folder = Path(name) / str(megabytes)
            size = write_jsonl(table, folder / "in", limit_mb=megabytes)
            attempts = 8 if megabytes <= 100 else 4
            runs = [fuzzy(folder / "in", folder / str(attempt))[0] for attempt in range(attempts)]
            watch = min(runs, key=lambda run: run.seconds)
            above = (watch.seconds - start.seconds) / size, (watch.cpu_seconds - start.cpu_seconds) / size
            rates.append((watch.seconds / size, *above))
            print(
                f"linear: {size:.0f} MB in {watch} (the best of {attempts}), {1000 * watch.seconds / size:.1f} ms/MB, "
                f"{1000 * above[0]:.1f} ms/MB above the start"
            )
    names = ("the clock", "the clock above the start", "processor seconds above the start")
    for what, values in zip(names, zip(*rates, strict=True), strict=True):
        print(f"linear, by {what}: slowest over fastest {max(values) / min(values):.2f}")


def memory(data: Path) -> None:
    table = pq.read_table(data)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_jsonl(table, folder / "in")
        write_jsonl(table.slice(0, 10), folder / "tiny", files=1)
        del table
        watch, _ = fuzzy(folder / "tiny", folder / "nothing", memory=True)
        fixed = watch.peak - watch.before
        print(f"memory: ten documents take {fixed / 1e6:.0f} MB: the interpreters of driver, fork server and workers")
        for budget in (22_000_000, 400_000_000):
            watch, found = fuzzy(folder / "in", folder / str(budget), memory=True, memory_budget=budget)
            print(
                f"memory: {size:.0f} MB with a budget of {budget / 1e6:.0f} MB ({size * 1e6 / budget:.0f} times): "
                f"{watch}, {found['num_duplicates']:,} removed; "
                f"{(watch.peak - watch.before - fixed) / 1e6:.0f} MB above that"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "exact", "quality", "linear", "memory"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer-python")
    parser.add_argument("--peer-mb", type=float, default=1e9, help="megabytes of data for the peer, at most")
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--threshold", type=float, default=0.8)
    given = parser.parse_args()
    match given.what:
        case "speed":
            speed(given.data, given.peer_python, given.peer_mb)
        case "exact":
            exact(given.data, given.peer_python)
        case "quality":
            quality(given.data, given.documents, given.threshold)
        case "linear":
            linear(given.data)
        case "memory":
            memory(given.data)
