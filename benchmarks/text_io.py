"""Measure reading and writing JSON Lines on one core, in nanoseconds of CPU time per byte, against other libraries.

    python benchmarks/text_io.py CORPUS [--repeat 3]

CORPUS is a JSONL or Parquet file with a column "text". polars and orjson are measured if they are installed. The
limits: a byte is read from the page cache, examined and written once. The other libraries do not check UTF-8
completely, do not keep values without a type, and rewrite every value.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "1"

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq

from penstock import DocumentBatch, FileGroupTask
from penstock.text import JsonlReaderStage, JsonlWriter

BLOCK = 64 << 20


def batches(path: Path) -> Iterator[DocumentBatch]:
    """Read a file in blocks, as the tasks of a run do."""
    stage, size = JsonlReaderStage(), path.stat().st_size
    for number, start in enumerate(range(0, size, BLOCK)):
        part = (start, min(start + BLOCK, size))
        batch = stage.process(FileGroupTask("d", [str(path)], reader_config={"part": part, "blocksize": BLOCK}))
        assert isinstance(batch, DocumentBatch)
        batch.task_id = str(number)
        yield batch


def read_only(path: Path, _out: Path) -> None:
    for _ in batches(path):
        pass


def read_text(path: Path, _out: Path) -> None:
    for batch in batches(path):
        batch.column("text")


def filter_lines(path: Path, out: Path) -> None:
    writer = JsonlWriter(out)
    for batch in batches(path):
        assert len(batch.column("text")) == batch.num_items
        writer.process(batch.select(np.flatnonzero(np.arange(batch.num_items) % 10)))


def add_score(path: Path, out: Path) -> None:
    writer = JsonlWriter(out)
    for batch in batches(path):
        scores = pa.array(np.arange(batch.num_items) / 7)
        writer.process(batch.with_columns({"a_new_score": scores}))


def replace_text(path: Path, out: Path) -> None:
    writer = JsonlWriter(out)
    for batch in batches(path):
        writer.process(batch.with_columns({"text": pc.utf8_rtrim_whitespace(batch.column("text"))}))


def through_table(path: Path, out: Path) -> None:
    writer = JsonlWriter(out)
    for batch in batches(path):
        table = DocumentBatch("d", batch.to_pyarrow())
        table.task_id = batch.task_id
        writer.process(table)


def with_pyarrow(path: Path, _out: Path) -> None:
    pyarrow.json.read_json(path, read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=1 << 24))


def with_polars_read(path: Path, _out: Path) -> None:
    import polars

    polars.read_ndjson(path)


def with_polars_copy(path: Path, out: Path) -> None:
    import polars

    polars.read_ndjson(path).write_ndjson(out / "polars.jsonl")


def with_orjson_read(path: Path, _out: Path) -> None:
    import orjson

    with path.open("rb") as stream:
        for line in stream:
            orjson.loads(line)


def with_orjson_copy(path: Path, out: Path) -> None:
    import orjson

    with path.open("rb") as stream, (out / "orjson.jsonl").open("wb") as target:
        for line in stream:
            target.write(orjson.dumps(orjson.loads(line)) + b"\n")


WORK: dict[str, tuple[str | None, Callable[[Path, Path], None]]] = {
    "read: find and check every document": (None, read_only),
    "read and decode the text": (None, read_text),
    "filter only: read, text, copy 9 of 10 lines": (None, filter_lines),
    "read, add a score, write": (None, add_score),
    "read, replace the text, write": (None, replace_text),
    "table: read, all columns, write them anew": (None, through_table),
    "pyarrow.json: read": (None, with_pyarrow),
    "polars: read": ("polars", with_polars_read),
    "polars: read and write": ("polars", with_polars_copy),
    "orjson: read": ("orjson", with_orjson_read),
    "orjson: read and write": ("orjson", with_orjson_copy),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = Path(options.corpus)
        if path.suffix == ".parquet":
            rows = pq.read_table(path).to_pylist()
            path = folder / "corpus.jsonl"
            path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        size = path.stat().st_size
        print(f"{size / 1e6:.0f} MB, the best of {options.repeat}")
        for label, (needs, work) in WORK.items():
            if needs is not None and find_spec(needs) is None:
                print(f"{label:<45} not installed")
                continue
            seconds = []
            for _ in range(options.repeat):
                (folder / "out").mkdir(exist_ok=True)
                start = time.process_time()
                work(path, folder / "out")
                seconds.append(time.process_time() - start)
            print(f"{label:<45} {min(seconds) / size * 1e9:5.2f} ns/byte  {size / min(seconds) / 1e6:6.0f} MB/s")


if __name__ == "__main__":
    main()
