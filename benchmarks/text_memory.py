"""Measure the memory of the process tree for a file far larger than a block: read, filter, write, two workers.

    python benchmarks/text_memory.py [CORPUS] [--gigabytes 4] [--blocksize 64MB] [--stage length|filter|pandas] [--gzip]

CORPUS is a JSONL or Parquet file with a column "text"; its documents are repeated up to the given size. Without one,
documents are generated. The stage "filter" is the 28 filters of the English recipe. Flat means: the second half of the
run needs no more than the first.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from text_filters import FILTERS
from tree_memory import TreeMemory

import penstock.text
from penstock import DocumentBatch, Pipeline, StreamingExecutor, processing_stage
from penstock.core.sizes import human_bytes
from penstock.text import JsonlReader, JsonlWriter, ScoreFilter


@processing_stage(name="strip")
def strip(task: DocumentBatch) -> DocumentBatch:
    frame = task.to_pandas()
    return DocumentBatch(task.dataset_name, frame.assign(text=frame["text"].str.strip()))


@processing_stage(name="length")
def length(task: DocumentBatch) -> DocumentBatch:
    return task.select(np.flatnonzero(pc.binary_length(task.column("text")).to_numpy() > 400))


def documents(corpus: str | None) -> Iterator[bytes]:
    """Yield the lines of a corpus."""
    if corpus is None:
        source = random.Random(0)
        words = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(2, 10))) for _ in range(5000)]
        for number in range(20_000):
            text = " ".join(source.choices(words, k=source.randint(50, 1200)))
            yield json.dumps({"id": number, "text": text}).encode()
    elif corpus.endswith(".parquet"):
        for row in pq.read_table(corpus).to_pylist():
            yield json.dumps(row, ensure_ascii=False).encode()
    else:
        yield from Path(corpus).read_bytes().splitlines()


def make_input(path: Path, corpus: str | None, size: int) -> None:
    block = b"".join(line + b"\n" for line in documents(corpus))
    with path.open("wb") as stream:
        while stream.tell() < size:
            stream.write(block)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--blocksize", default="64MB")
    parser.add_argument("--stage", choices=["length", "filter", "pandas"], default="filter")
    parser.add_argument("--gzip", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "big.jsonl"
        # In a process of its own: what it takes to make the input is not what it takes to read it.
        maker = get_context("spawn").Process(
            target=make_input, args=(source, options.corpus, int(options.gigabytes * 10**9))
        )
        maker.start()
        maker.join()
        size = source.stat().st_size
        if options.gzip:
            subprocess.run(["gzip", "-1", source], check=True)
            source = folder / "big.jsonl.gz"
        filters = ScoreFilter([getattr(penstock.text, name)(**given) for _, name, given in FILTERS])
        middle = {"length": length, "filter": filters, "pandas": strip}[options.stage]
        stages = [JsonlReader(source, blocksize=options.blocksize), middle, JsonlWriter(folder / "out")]
        memory = TreeMemory()
        memory.start()
        start = time.perf_counter()
        Pipeline("memory", stages=stages).run(StreamingExecutor(cpus=2, show_progress=False))
        seconds = time.perf_counter() - start
        memory.stopped.set()
        memory.join()
        half = len(memory.samples) // 2
        first, second = memory.samples[half // 4 : half], memory.samples[half:]
        print(f"{human_bytes(size)} in blocks of {options.blocksize}, {options.stage}, {seconds:.0f} s")
        print(f"peak {human_bytes(max(memory.samples))}")
        for half_name, samples in (("first half", first), ("second half", second)):
            print(f"{half_name}: median {human_bytes(median(samples))}, most {human_bytes(max(samples))}")


if __name__ == "__main__":
    main()
