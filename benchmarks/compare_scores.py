"""Compare the scores of every heuristic filter with nemo-curator, document by document.

    python benchmarks/compare_scores.py --corpus corpus.parquet --peer-python /path/to/env/bin/python

The peer runs in its own environment. Without --peer-python, the scan is compared with the plain Python of Penstock
only. A difference is listed with the filter, the number of documents that differ and the first of them. If two n-grams
are equally frequent, the peer uses the one that its hash seed puts first; a score that another of them would have is
counted as "a tie", not as a difference.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

# Filter -> arguments. The same names and arguments on both sides.
FILTERS: list[tuple[str, dict[str, Any]]] = [
    ("NonAlphaNumericFilter", {}),
    ("SymbolsToWordsFilter", {}),
    ("NumbersFilter", {}),
    ("UrlsFilter", {}),
    ("BulletsFilter", {}),
    ("WhiteSpaceFilter", {}),
    ("ParenthesesFilter", {}),
    ("LongWordFilter", {}),
    ("WordCountFilter", {}),
    ("BoilerPlateStringFilter", {}),
    ("MeanWordLengthFilter", {}),
    ("PunctuationFilter", {}),
    ("EllipsisFilter", {}),
    ("CommonEnglishWordsFilter", {}),
    ("CommonEnglishWordsFilter", {"stop_at_false": False}),
    ("WordsWithoutAlphabetsFilter", {}),
    ("PornographicUrlsFilter", {}),
    ("SubstringFilter", {"substring": "the", "position": "any"}),
    ("RepeatedLinesFilter", {}),
    ("RepeatedParagraphsFilter", {}),
    ("RepeatedLinesByCharFilter", {}),
    ("RepeatedParagraphsByCharFilter", {}),
    *(("RepeatingTopNGramsFilter", {"n": n}) for n in (2, 3, 4)),
    *(("RepeatingDuplicateNGramsFilter", {"n": n}) for n in (2, 5, 6, 7, 8, 9, 10)),
    ("AlphaFilter", {}),
    ("NumberOfLinesOfCodeFilter", {}),
    ("XMLHeaderFilter", {}),
]

_PEER = """
import importlib, json, sys, time
import pyarrow.parquet as pq
corpus, rows, filters, output = json.loads(sys.argv[1])
homes = ["string", "repetition", "code"]
modules = []
for home in homes:
    try:
        modules.append(importlib.import_module("nemo_curator.stages.text.filters.heuristic." + home))
    except ImportError as error:
        print(home, error, file=sys.stderr)
texts = pq.read_table(corpus, columns=["text"])["text"].to_pylist()[:rows]
with open(output, "w") as out:
    for name, arguments in filters:
        made = [getattr(module, name)(**arguments) for module in modules if hasattr(module, name)]
        scores, start = [], time.perf_counter()
        for text in texts if made else []:
            try:
                scores.append(made[0].score_document(text))
            except ZeroDivisionError as error:
                scores.append("crash")
            except ValueError as error:
                scores.append("crash")
        kept = [score != "crash" and bool(made[0].keep_document(score)) for score in scores]
        json.dump([name, scores, kept, time.perf_counter() - start], out)
        out.write("\\n")
"""


def peer_scores(python: str, corpus: str, rows: int) -> list[tuple[list[Any], list[bool], float]]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "scores.jsonl"
        request = json.dumps([corpus, rows, FILTERS, str(output)])
        subprocess.run([python, "-c", _PEER, request], check=True, stdout=subprocess.DEVNULL)
        return [tuple(json.loads(line)[1:]) for line in output.read_text().splitlines()]


def our_scores(corpus: str, rows: int) -> list[tuple[list[Any], list[bool], float]]:
    import pyarrow.parquet as pq

    import penstock.text
    from penstock.core.documents import DocumentBatch
    from penstock.text.filters.rules import Rule, judge

    batch = DocumentBatch("corpus", pq.read_table(corpus, columns=["text"]).slice(0, rows))
    found = []
    for name, arguments in FILTERS:
        given = getattr(penstock.text, name)(**arguments)
        start = time.perf_counter()
        [judgement] = judge(batch, [Rule(name, given, "text", None)], score_all=True)
        found.append((list(judgement.scores), judgement.kept.tolist(), time.perf_counter() - start))
    return found


def read_texts(corpus: str, rows: int) -> list[str]:
    import pyarrow.parquet as pq

    texts: list[str] = pq.read_table(corpus, columns=["text"])["text"].to_pylist()[:rows]
    return texts


def python_scores(corpus: str, rows: int) -> list[tuple[list[Any], list[bool], float]]:
    import penstock.text

    texts = read_texts(corpus, rows)
    found = []
    for name, arguments in FILTERS:
        given = getattr(penstock.text, name)(**arguments)
        start = time.perf_counter()
        scores = [given.score_document(text) for text in texts]
        found.append((scores, [bool(given.keep_document(score)) for score in scores], time.perf_counter() - start))
    return found


def is_tie(text: str, n: int, score: float) -> bool:
    """Return whether one of the most frequent n-grams of a text gives that score."""
    words = text.split()
    counts = Counter(zip(*(words[i:] for i in range(n)), strict=False))
    most = max(counts.values())
    tops = (" ".join(ngram) for ngram, count in counts.items() if count == most)
    return any((len(text) - len(text.replace(top, ""))) / len(text) == score for top in tops)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="a Parquet file with a column 'text'")
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--only", default="", help="compare only filters whose name begins with this")
    parser.add_argument("--peer-python", help="Python of an environment with nemo-curator 1.4.0")
    options = parser.parse_args()
    FILTERS[:] = [entry for entry in FILTERS if entry[0].startswith(options.only)]
    ours = our_scores(options.corpus, options.rows)
    if options.peer_python:
        theirs = peer_scores(options.peer_python, options.corpus, options.rows)
    else:
        theirs = python_scores(options.corpus, options.rows)
    texts = read_texts(options.corpus, options.rows)
    print(f"{'filter':45} {'documents':>9} {'scores differ':>13} {'verdicts differ':>15} {'seconds':>16} ties")
    different = 0
    for (name, arguments), (scores, kept, seconds), (peers, peers_kept, peers_seconds) in zip(
        FILTERS, ours, theirs, strict=True
    ):
        label = name + (str(arguments) if arguments else "")
        if not peers:
            print(f"{label:45} the peer has none that runs")
            continue
        rows = [i for i, (one, other) in enumerate(zip(scores, peers, strict=True)) if one != other]
        ties = []
        if name == "RepeatingTopNGramsFilter":
            ties = [row for row in rows if is_tie(texts[row], arguments["n"], peers[row])]
            rows = sorted(set(rows) - set(ties))
        flips = sum(one != other for one, other in zip(kept, peers_kept, strict=True))
        different += bool(rows)
        print(f"{label:45} {len(scores):9} {len(rows):13} {flips:15} {seconds:8.2f}{peers_seconds:8.2f} {len(ties)}")
        for row in rows[:1]:
            print(f"    first: row {row}: ours {scores[row]!r}, theirs {peers[row]!r}")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
