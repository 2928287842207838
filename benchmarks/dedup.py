"""Deduplication: how fast, how good, how much memory; ours and peers in one run.

    python benchmarks/dedup.py speed --data DATA --peer-python PYTHON   (fuzzy, against datatrove's MinHash)
    python benchmarks/dedup.py exact --data DATA --peer-python PYTHON   (against polars' unique)
    python benchmarks/dedup.py quality --data DATA                      (against all pairs of a sample)
    python benchmarks/dedup.py linear --data DATA                       (50 to 400 MB: seconds per MB)
    python benchmarks/dedup.py memory --data DATA                       (twenty times the budget)

DATA is a Parquet file with columns ``id`` and ``text``, best one with many versions of each page. PYTHON belongs to an
environment with datatrove, spacy and polars.

The limit of the fuzzy workflow: every byte is parsed three times (sign, gather, remove), hashed once for its text and
once for its shingles; a signature costs one multiply-add and one minimum per permutation and shingle.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from penstock import StreamingExecutor
from penstock.dedup.exact_workflow import ExactDeduplicationWorkflow
from penstock.dedup.fuzzy import FuzzyDeduplicationWorkflow
from penstock.dedup.places import ID_FIELD
from penstock.kernels.jaccard import Comparing
from penstock.kernels.shingles import Shingling

PEER = Path(__file__).with_name("dedup_peer.py")


def write_jsonl(table: pa.Table, folder: Path, files: int = 8, limit_mb: float | None = None) -> float:
    """Write documents as JSON lines into some files of equal size; return megabytes of text."""
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


def fuzzy(source: Path, work: Path, **settings: object) -> tuple[float, FuzzyDeduplicationWorkflow, dict[str, object]]:
    """Run the fuzzy workflow with removal, and return the seconds it took."""
    workflow = FuzzyDeduplicationWorkflow(
        str(work / "cache"), str(work / "out"), str(source), perform_removal=True, show_progress=False,
        max_removed_share=1.0, **{"input_filetype": "jsonl", **settings},  # type: ignore[arg-type]
    )  # fmt: skip
    start = time.perf_counter()
    result = workflow.run(StreamingExecutor(show_progress=False))
    return time.perf_counter() - start, workflow, result.metadata


def speed(data: Path, peer: str | None, peer_mb: float) -> None:
    table = pq.read_table(data)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_jsonl(table, folder / "in")
        same = {"word_ngrams": 5, "num_bands": 14, "minhashes_per_band": 8, "use_64_bit_hash": True}
        for attempt in ("first run, kernels compiled", "second run"):
            seconds, _, found = fuzzy(folder / "in", folder / attempt.split(",")[0].replace(" ", "-"), **same)
            print(
                f"ours, word 5-grams, 14 x 8, 64 bit ({attempt}): {size:.0f} MB in {seconds:.1f} s, "
                f"{size / seconds:.1f} MB/s, {found['num_duplicates']:,} removed, each verified"
            )
        ours = size / seconds
        seconds, _, found = fuzzy(folder / "in", folder / "chars")
        print(
            f"ours, character 24-grams, 20 x 13, 32 bit: {size / seconds:.1f} MB/s, {found['num_duplicates']:,} removed"
        )
        if peer:
            size = write_jsonl(table, folder / "peer-in", limit_mb=peer_mb)
            start = time.perf_counter()
            out = subprocess.run(
                [peer, PEER, "minhash", folder / "peer-in", folder / "peer"], capture_output=True, text=True
            )
            seconds = time.perf_counter() - start
            if out.returncode:
                raise SystemExit(out.stderr[-3000:])
            print(
                f"datatrove MinHash, the same shingles and bands, 2 workers: {size:.0f} MB in {seconds:.1f} s, "
                f"{size / seconds:.2f} MB/s; {out.stdout.strip()}"
            )
            print(f"ours / datatrove: {ours / (size / seconds):.0f} times")


def exact(data: Path, peer: str | None) -> None:
    table = pq.read_table(data)
    size = table["text"].nbytes / 1e6
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        rows = -(-table.num_rows // 8)
        for number in range(8):
            pq.write_table(table.slice(number * rows, rows), folder / f"in/{number}.parquet")
        for attempt in range(3):
            workflow = ExactDeduplicationWorkflow(
                str(folder / f"out{attempt}"), str(folder / "in"), perform_removal=True, show_progress=False
            )
            start = time.perf_counter()
            found = workflow.run(StreamingExecutor(show_progress=False)).metadata
            ours = time.perf_counter() - start
            print(f"ours, exact: {size:.0f} MB in {ours:.2f} s, {found['num_duplicates']:,} removed")
            if peer:
                start = time.perf_counter()
                out = subprocess.run(
                    [peer, PEER, "unique", folder / "in", folder / f"polars{attempt}.parquet"],
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                theirs = time.perf_counter() - start
                print(f"polars unique: {theirs:.2f} s; {out.stdout.strip()}; polars / ours: {theirs / ours:.2f}")


def quality(data: Path, documents: int, threshold: float) -> None:
    """Compare with the truth on all versions of randomly chosen pages: every pair of documents, one by one.

    Pairs whose sizes alone rule the similarity out are not counted out; nothing else is assumed.
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
    table = pq.read_table(data)
    rates = []
    with tempfile.TemporaryDirectory() as name:
        for megabytes in (20, 50, 100, 200, 400):
            folder = Path(name) / str(megabytes)
            size = write_jsonl(table, folder / "in", limit_mb=megabytes)
            seconds, _, _ = fuzzy(folder / "in", folder)
            if megabytes > 20:  # the first one warms up
                rates.append(seconds / size)
                print(f"linear: {size:.0f} MB in {seconds:.1f} s, {1000 * seconds / size:.1f} ms/MB")
    print(f"linear: slowest over fastest {max(rates) / min(rates):.2f}")


def memory(data: Path) -> None:
    table = pq.read_table(data)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_jsonl(table, folder / "in")
        for budget in (20_000_000, 400_000_000):
            peak = [0]
            done = threading.Event()
            watcher = threading.Thread(target=_watch, args=(peak, done))
            watcher.start()
            seconds, _, found = fuzzy(folder / "in", folder / str(budget), memory_budget=budget, input_blocksize="4MB")
            done.set()
            watcher.join()
            print(
                f"memory: {size:.0f} MB with a budget of {budget / 1e6:.0f} MB ({size * 1e6 / budget:.0f} times): "
                f"{seconds:.1f} s, {found['num_duplicates']:,} removed; all processes {peak[0] / 1e6:.0f} MB"
            )


def _watch(peak: list[int], done: threading.Event) -> None:
    me = psutil.Process()
    while not done.wait(0.1):
        total = 0
        for process in [me, *me.children(recursive=True)]:
            try:
                total += process.memory_info().rss - process.memory_info().shared
            except psutil.Error:
                continue
        peak[0] = max(peak[0], total)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "exact", "quality", "linear", "memory"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer-python")
    parser.add_argument("--peer-mb", type=float, default=1e9, help="give the peer only so much of the data")
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
