"""What receipts cost: time and bytes of the ledger of a run, and how long `penstock whatif` takes over a million.

    python benchmarks/ledger.py run --data corpus.parquet [--mb 500] [--rounds 5] [--recipe english-web]
    python benchmarks/ledger.py whatif [--documents 1000000] [--rules 28]

`run` curates the same JSONL files with and without the ledger in alternation and compares the CPU time of all workers;
the wall time is printed beside it, and on a machine that does other things tells less.
"""

from __future__ import annotations

import argparse
import json
import resource
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

from penstock.ledger.fragment import Fragment, RuleColumn, write_table
from penstock.ledger.reading import find_ledger
from penstock.ledger.rules import Rules, StageRule, write_rules
from penstock.ledger.whatif import parse_changes, what_if

_FILES = 8


def make_corpus(data: Path, folder: Path, megabytes: int) -> int:
    """Write the documents of a Parquet file as JSONL, again and again, and return how many bytes that is."""
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


def timed(arguments: list[str]) -> tuple[float, float]:
    """Run a command in processes of its own, and return seconds of wall time and of CPU."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "penstock", *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


def compare_runs(data: Path, megabytes: int, rounds: int, recipe: str) -> None:
    """Curate with and without the ledger, in turn."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        size = make_corpus(data, folder / "crawl", megabytes)
        command = ["curate", str(folder / "crawl"), str(folder / "clean"), "--recipe", recipe]
        timed(command)  # kernels are compiled, files are in the cache of the system
        found: dict[str, list[tuple[float, float]]] = {"with": [], "without": []}
        for round_number in range(rounds):
            ways = [("without", ["--no-ledger"]), ("with", [])]
            for way, flags in ways if round_number % 2 else reversed(ways):
                shutil.rmtree(folder / "clean")
                found[way].append(timed([*command, *flags]))
                if way == "with":
                    ledger = find_ledger(str(folder / "clean"))
                    documents = sum(piece.num_rows for piece in ledger.pieces)
                    asked = sum(int(flag.sum()) for decisions in ledger.shards() for flag in decisions.asked.values())
                    files = list(Path(ledger.folder).iterdir())
                    stored = sum(file.stat().st_size for file in files)
        print(f"{size / 1e6:.0f} MB, {documents:,} documents, {asked:,} decisions, {rounds} rounds")
        for label, number in (("wall", 0), ("CPU", 1)):
            without, with_ledger = ([times[number] for times in found[way]] for way in ("without", "with"))
            ratio = statistics.median(b / a - 1 for a, b in zip(without, with_ledger, strict=True))
            print(
                f"  {label:>4}: without {min(without):.2f} s, with {min(with_ledger):.2f} s (best); "
                f"best against best {min(with_ledger) / min(without) - 1:+.1%}, median of pairs {ratio:+.1%}"
            )
        print(
            f"  ledger: {stored / 1e6:.1f} MB in {len(files)} files, {stored / documents:.1f} bytes a document, "
            f"{stored / max(asked, 1):.2f} bytes a decision, {stored / size:.2%} of the input"
        )


def time_whatif(documents: int, rules: int) -> None:
    """Try another threshold on the stored scores of very many documents."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = f"{scratch}/_penstock/ledger"
        labels = ["word_count", *(f"rule_{number}" for number in range(1, rules))]
        decider = "penstock.text:WordCountFilter"
        stages = [StageRule(label, label, decider, {"min_words": 50, "max_words": 100000}) for label in labels]
        write_rules(folder, Rules("benchmark", ((tuple(labels),),), tuple(stages), ("id",)))
        _write_pieces(folder, labels, documents)
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


def _write_pieces(folder: str, labels: list[str], documents: int) -> None:
    chance = np.random.default_rng(1)
    per_piece = 16_384
    for number, first in enumerate(range(0, documents, per_piece)):
        count = min(per_piece, documents - first)
        columns = {}
        dropped = np.full(count, -1)
        for position, label in enumerate(labels):
            scores = np.round(chance.lognormal(5.5, 1, count))
            fails = scores < (50 if position == 0 else 8)
            columns[label] = RuleColumn(np.ones(count, bool), fails, scores)
            dropped[(dropped < 0) & fails] = position
        fragment = Fragment(
            f"0_{number}",
            {"task": f"0_{number}", "pool": 0, "files": [f"crawl/{number:04}.jsonl"]},
            np.arange(count),
            pa.array(labels).take(pa.array(dropped, mask=dropped < 0)),
            columns,
            pa.array([f"doc-{first + row}" for row in range(count)]),
            chance.integers(100, 20_000, count),
        )
        with Path(f"{folder}/{number:04}.parquet").open("wb") as stream:
            write_table(fragment.to_table(), stream)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "whatif"])
    parser.add_argument("--data", type=Path, help="a Parquet file with the columns id and text")
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recipe", default="english-web")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--rules", type=int, default=28)
    given = parser.parse_args()
    if given.what == "whatif":
        time_whatif(given.documents, given.rules)
    elif given.data is None:
        parser.error("run needs --data")
    else:
        compare_runs(given.data, given.mb, given.rounds, given.recipe)


if __name__ == "__main__":
    main()
