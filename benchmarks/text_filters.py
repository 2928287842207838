"""Measure the 28 filters of the English recipe, JSONL to JSONL on two cores, against nemo-curator and datatrove.

    python benchmarks/text_filters.py --corpus corpus.parquet --megabytes 500 \
        --peer-python env/bin/python --datatrove-python env2/bin/python

The corpus (columns ``id`` and ``text``) is written as JSONL and repeated, with distinct ids, up to the given size. The
peers run in their own environments. datatrove gets one repetition, so that a run ends; throughputs are compared.
Start-up is included on all sides: processes, Ray, imports, loading compiled code. It also prints on which documents the
two agree, and the time of Penstock compared with reading and writing alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.core.executor import Executor

MB = 10**6
CORES = 2
FILES = 8
NEMO = Path(__file__).with_name("text_filters_peer.py")

FILTERS: list[tuple[str, str, dict[str, Any]]] = [
    ("string", "NonAlphaNumericFilter", {"max_non_alpha_numeric_to_text_ratio": 0.25}),
    ("string", "SymbolsToWordsFilter", {"max_symbol_to_word_ratio": 0.1}),
    ("string", "NumbersFilter", {"max_number_to_text_ratio": 0.15}),
    ("string", "UrlsFilter", {"max_url_to_text_ratio": 0.2}),
    ("string", "WhiteSpaceFilter", {"max_white_space_ratio": 0.25}),
    ("string", "ParenthesesFilter", {"max_parentheses_ratio": 0.1}),
    ("string", "BoilerPlateStringFilter", {"max_boilerplate_string_ratio": 0.4}),
    ("repetition", "RepeatedLinesFilter", {"max_repeated_line_fraction": 0.7}),
    ("repetition", "RepeatedParagraphsFilter", {"max_repeated_paragraphs_ratio": 0.7}),
    ("repetition", "RepeatedLinesByCharFilter", {"max_repeated_lines_char_ratio": 0.8}),
    ("repetition", "RepeatedParagraphsByCharFilter", {"max_repeated_paragraphs_char_ratio": 0.8}),
    ("string", "WordCountFilter", {"min_words": 50, "max_words": 100000}),
    ("string", "PunctuationFilter", {"max_num_sentences_without_endmark_ratio": 0.85}),
    ("string", "WordsWithoutAlphabetsFilter", {"min_words_with_alphabets": 0.8}),
    ("string", "CommonEnglishWordsFilter", {"min_num_common_words": 2}),
    ("string", "MeanWordLengthFilter", {"min_mean_word_length": 3, "max_mean_word_length": 10}),
    ("string", "LongWordFilter", {"max_word_length": 1000}),
    ("string", "EllipsisFilter", {"max_num_lines_ending_with_ellipsis_ratio": 0.3}),
    *(
        ("repetition", "RepeatingTopNGramsFilter", {"n": n, "max_repeating_ngram_ratio": ratio})
        for n, ratio in ((2, 0.2), (3, 0.18), (4, 0.16))
    ),
    *(
        ("repetition", "RepeatingDuplicateNGramsFilter", {"n": n, "max_repeating_duplicate_ngram_ratio": ratio})
        for n, ratio in ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))
    ),
    ("string", "BulletsFilter", {"max_bullet_lines_ratio": 0.9}),
]

_DATATROVE = """
import json, sys, time
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
source, target, files, cores = json.loads(sys.argv[1])
if __name__ == "__main__":
    start = time.perf_counter()
    stages = [
        JsonlReader(source), GopherRepetitionFilter(), GopherQualityFilter(), JsonlWriter(target, compression=None),
    ]
    LocalPipelineExecutor(stages, tasks=files, workers=cores, logging_dir=target + "/logs").run()
    print("SECONDS", time.perf_counter() - start)
"""


def write_corpus(corpus: str, folder: Path, repetition: int, documents: int | None = None) -> int:
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    table = pq.read_table(corpus, columns=["id", "text"]).slice(0, documents)
    written = 0
    for number in range(FILES):
        part = table.slice(number * table.num_rows // FILES, (table.num_rows + FILES - 1) // FILES)
        path = folder / f"{repetition:03}-{number}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for key, text in zip(part["id"].to_pylist(), part["text"].to_pylist(), strict=True):
                file.write(json.dumps({"id": f"{key}#{repetition}", "text": text}, ensure_ascii=False) + "\n")
        written += path.stat().st_size
    return written


def run_ours(source: Path, target: Path, with_filters: bool = True, executor: Executor | None = None) -> float:
    import penstock.text
    from penstock import Pipeline
    from penstock.text import JsonlReader, JsonlWriter, ScoreFilter

    start = time.perf_counter()
    stages: list[Any] = [JsonlReader(str(source))]
    if with_filters:
        stages += [ScoreFilter(getattr(penstock.text, name)(**given)) for _, name, given in FILTERS]
    Pipeline("text_filters", stages=[*stages, JsonlWriter(str(target))]).run(executor)
    return time.perf_counter() - start


def scan_seconds(corpus: str) -> float:
    """Return the seconds of scan and verdicts on one core, without reading or writing."""
    import pyarrow.parquet as pq

    import penstock.text
    from penstock.core.documents import DocumentBatch
    from penstock.text import ScoreFilter

    batch = DocumentBatch("corpus", pq.read_table(corpus))
    stage = ScoreFilter([getattr(penstock.text, name)(**given) for _, name, given in FILTERS])
    stage.process(batch)
    start = time.process_time()
    stage.process(batch)
    return time.process_time() - start


def run_peer(python: str, script: Path, request: list[Any]) -> list[float]:
    """Return the seconds that a peer reports; for nemo-curator with and without start-up."""
    done = subprocess.run([python, str(script), json.dumps(request)], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("SECONDS"):
            return [float(word) for word in line.split()[1:]]
    sys.exit(f"the peer failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


def kept_ids(folder: Path) -> set[str]:
    found = set()
    for path in folder.rglob("*.jsonl"):
        if "_penstock" not in path.parts:
            with path.open(encoding="utf-8") as lines:
                found |= {json.loads(line)["id"] for line in lines}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="a Parquet file with the columns 'id' and 'text'")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--peer-python", help="Python of an environment with nemo-curator 1.4.0")
    parser.add_argument("--datatrove-python", help="Python of an environment with datatrove 0.10.1, spacy and nltk")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="text-filters-"))
    try:
        measure(options, work)
    finally:
        shutil.rmtree(work)


def measure(options: argparse.Namespace, work: Path) -> None:
    once = write_corpus(options.corpus, work / "once", 0)
    repetitions, total = 0, 0
    while total < options.megabytes * MB:
        total += write_corpus(options.corpus, work / "many", repetitions)
        repetitions += 1
    print(f"input: {total / MB:.0f} MB of JSONL, {repetitions} times {once / MB:.0f} MB")

    alone = run_ours(work / "many", work / "copied", with_filters=False)
    print(f"ours, reading and writing alone        {alone:7.1f} s {total / MB / alone:8.1f} MB/s")
    ours = run_ours(work / "many", work / "ours")
    print(f"ours, 28 filters                       {ours:7.1f} s {total / MB / ours:8.1f} MB/s")
    scan = scan_seconds(options.corpus) * repetitions / CORES
    print(f"    of which scan and verdicts, if spread evenly over {CORES} cores {scan:.1f} s")
    if options.peer_python:
        request = [str(work / "many"), str(work / "peer"), FILTERS, CORES, "RayDataExecutor"]
        seconds, _ = run_peer(options.peer_python, NEMO, request)
        print(f"nemo-curator, the same                 {seconds:7.1f} s {total / MB / seconds:8.1f} MB/s")
        print(f"    ratio of throughputs {seconds / ours:.1f}")
        mine, theirs = kept_ids(work / "ours"), kept_ids(work / "peer")
        print(f"    kept by us {len(mine)}, by them {len(theirs)}, by one only {len(mine ^ theirs)}")
    if options.datatrove_python:
        script = work / "peer_datatrove.py"  # not "datatrove": it would import itself
        script.write_text(_DATATROVE)
        request = [str(work / "once"), str(work / "datatrove"), FILES, CORES]
        [seconds] = run_peer(options.datatrove_python, script, request)
        print(f"datatrove, Gopher rules, one repetition {seconds:6.1f} s {once / MB / seconds:8.1f} MB/s")
        print(f"    ratio of throughputs {total / ours / (once / seconds):.1f}")


if __name__ == "__main__":
    main()
