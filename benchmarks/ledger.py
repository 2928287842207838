"""Measure the cost of receipts: time and bytes of the ledger, and the time of `penstock whatif` on a million documents.

    python benchmarks/ledger.py run --data corpus.parquet [--mb 500] [--rounds 5] [--recipe english-web] [--inline]
    python benchmarks/ledger.py whatif [--documents 1000000] [--rules 28]

`run` curates the same JSONL files with and without the ledger in alternation, as a user runs it: with workers on every
core. ``--inline`` does all of it in one process, where the CPU time can be compared too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock import StreamingExecutor
from penstock.executors.inline import InlineExecutor
from penstock.ledger.query.ledger import find_ledger
from penstock.ledger.query.whatif import parse_changes, what_if
from penstock.ledger.store.block_writer import BlockWriter
from penstock.ledger.store.fragment import Fragment, RuleColumn, pack
from penstock.ledger.store.rules import Rules, StageRule, write_rules
from penstock.recipe.recipe import load_recipe

_FILES = 8


def make_corpus(data: Path, folder: Path, megabytes: int) -> int:
    """Write the documents of a Parquet file repeatedly as JSONL; return the number of bytes."""
    table = pq.read_table(data, columns=["id", "text"])
    rows = table.to_pylist()
    folder.mkdir(parents=True)
    written = copy = 0
    while written < megabytes * 10**6:
        for part in range(_FILES):
            lines = [json.dumps({"id": f"{copy}-{row['id']}", "text": row["text"]}) for row in rows[part::_FILES]]
            body = ("\n".join(lines) + "\n").encode()
            (folder / f"{copy:04}-{part}.jsonl").write_bytes(body)
            written += len(body)
        copy += 1
    return written


def curate(folder: Path, recipe: str, *, ledger: bool, inline: bool) -> tuple[float, float]:
    """Curate; return the wall time and the CPU time of this process in seconds."""
    shutil.rmtree(folder / "clean", ignore_errors=True)
    loaded = load_recipe(recipe, [f"input_path={folder}/crawl", f"output_path={folder}/clean"])
    wall, cpu = time.perf_counter(), time.process_time()
    executor = InlineExecutor if inline else StreamingExecutor
    loaded.pipeline.run(executor(show_progress=False, ledger=ledger))
    return time.perf_counter() - wall, time.process_time() - cpu


def compare_runs(data: Path, megabytes: int, rounds: int, recipe: str, *, inline: bool) -> None:
    """Curate with and without the ledger, in turn."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        size = make_corpus(data, folder / "crawl", megabytes)
        curate(folder, recipe, ledger=True, inline=inline)  # kernels are compiled, files are in the cache of the system
        ledger = find_ledger(str(folder / "clean"))
        documents = sum(part.num_rows for part in ledger.parts)
        asked = sum(int(flag.sum()) for decisions in ledger.shards() for flag in decisions.asked.values())
        files = list(Path(ledger.folder).iterdir())
        stored = sum(file.stat().st_size for file in files)
        print(f"{size / 1e6:.0f} MB, {documents:,} documents, {asked:,} decisions, {rounds} rounds")
        print(
            f"  ledger: {stored / 1e6:.1f} MB in {len(files)} files, {stored / documents:.1f} bytes a document, "
            f"{stored / max(asked, 1):.2f} bytes a decision, {stored / size:.2%} of the input"
        )
        found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for round_number in range(rounds):
            for way in (True, False) if round_number % 2 else (False, True):
                found[way].append(curate(folder, recipe, ledger=way, inline=inline))
        for number, label in enumerate(["wall", "CPU"] if inline else ["wall"]):
            without, with_ledger = ([times[number] for times in found[way]] for way in (False, True))
            ratio = statistics.median(b / a - 1 for a, b in zip(without, with_ledger, strict=True))
            print(
                f"  {label:>4}: without {min(without):.2f} s, with {min(with_ledger):.2f} s (best); "
                f"best against best {min(with_ledger) / min(without) - 1:+.1%}, "
                f"medians {statistics.median(with_ledger) / statistics.median(without) - 1:+.1%}, "
                f"median of pairs {ratio:+.1%}"
            )


def time_whatif(documents: int, rules: int) -> None:
    """Time another threshold on the stored scores of many documents."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = f"{scratch}/_penstock/ledger"
        labels = ["word_count", *(f"rule_{number}" for number in range(1, rules))]
        decider = "penstock.text:WordCountFilter"
        stages = [StageRule(label, label, decider, {"min_words": 50, "max_words": 100000}) for label in labels]
        write_rules(folder, Rules("benchmark", ((tuple(labels),),), tuple(stages), ("id",)))
        _write_blocks(folder, labels, documents)
        for attempt in range(3):
            start = time.perf_counter()
            ledger = find_ledger(scratch)
            outcome = what_if(ledger, parse_changes(ledger, ["word_count.min_words=80"]), examples=3)
            seconds = time.perf_counter() - start
            print(
                f"whatif over {documents:,} documents and {rules} rules: {seconds:.2f} s (attempt {attempt + 1}); "
                f"{outcome.total.kept:,} kept, {outcome.total.would_keep:,} would be"
            )
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "penstock", "whatif", scratch, "word_count.min_words=80"],
            check=True,
            capture_output=True,
        )
        print(f"the same as a command, with the start of Python: {time.perf_counter() - start:.2f} s")


def _write_blocks(folder: str, labels: list[str], documents: int) -> None:
    chance = np.random.default_rng(1)
    per_block = 2_000
    writer = BlockWriter(folder)
    for number, first in enumerate(range(0, documents, per_block)):
        count = min(per_block, documents - first)
        columns = {}
        dropped = np.full(count, -1, np.int16)
        for position, label in enumerate(labels):
            scores = np.round(chance.lognormal(5.5, 1, count))
            fails = scores < (50 if position == 0 else 8)
            columns[label] = RuleColumn(np.ones(count, bool), ~fails, scores)
            dropped[(dropped < 0) & fails] = position
        fragment = Fragment(
            f"0_{number}",
            {"task": f"0_{number}", "pool": 0, "files": [f"crawl/{number:04}.jsonl"]},
            np.arange(count),
            dropped,
            tuple(columns),
            *pack(columns, count),
            pa.array([f"doc-{first + row}" for row in range(count)]),
            chance.integers(100, 20_000, count),
        )
        writer.add(fragment, {label: {} for label in labels})
    writer.close()


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "whatif"])
    parser.add_argument("--data", type=Path, help="a Parquet file with the columns id and text")
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recipe", default="english-web")
    parser.add_argument("--inline", action="store_true", help="run in one process")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--rules", type=int, default=28)
    given = parser.parse_args()
    if given.what == "whatif":
        time_whatif(given.documents, given.rules)
    elif given.data is None:
        parser.error("run needs --data")
    else:
        compare_runs(given.data, given.mb, given.rounds, given.recipe, inline=given.inline)


if __name__ == "__main__":
    main()
