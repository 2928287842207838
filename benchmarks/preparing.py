"""Measure the speed of modifiers and language identification on one core, and the accuracy of the language.

    python benchmarks/preparing.py CORPUS.parquet [--every 8] [--peer-python PATH_TO_A_PYTHON_WITH_NEMO_CURATOR]

The corpus has columns `id` and `text`. If ids contain a folder of the language (`…/files/pt-br/…`), accuracy is
measured. fastText and ftfy, called document by document, are measured for comparison; with a peer, NeMo Curator's
modifiers too. Times are CPU seconds of this process, without reading.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

import fasttext
import ftfy
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.text import (
    BoilerPlateStringModifier,
    FastTextLangId,
    LineRemover,
    MarkdownRemover,
    NewlineNormalizer,
    QuotationRemover,
    Slicer,
    TextModifier,
    UnicodeReformatter,
    UrlRemover,
)

MODIFIERS: list[TextModifier] = [
    BoilerPlateStringModifier(), LineRemover(["## Examples"]), MarkdownRemover(), NewlineNormalizer(),
    QuotationRemover(), Slicer(), UrlRemover(), UnicodeReformatter(),
]  # fmt: skip
PEER = """
import json, sys, time, pyarrow.parquet as pq
from nemo_curator.stages.text import modifiers as m
texts = pq.read_table(sys.argv[1])["text"].to_pylist()[:: int(sys.argv[2])]
for name, arguments in [("BoilerPlateStringModifier", []), ("LineRemover", [["## Examples"]]), ("MarkdownRemover", []),
                        ("NewlineNormalizer", []), ("QuotationRemover", []), ("Slicer", []), ("UrlRemover", [])]:
    modifier = getattr(m, name)(*arguments)
    start = time.process_time()
    changed = [modifier.modify_document(text) for text in texts]
    print(json.dumps([name, time.process_time() - start, sum(map(len, changed))]))
"""


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def show(label: str, seconds: float, megabytes: float, documents: int) -> None:
    print(f"{label:40} {seconds:8.3f} s {megabytes / seconds:8.0f} MB/s {documents / seconds:10,.0f} documents/s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--peer-python")
    options = parser.parse_args()
    table = pq.read_table(options.corpus)
    ids, texts = (table[name].to_pylist()[:: options.every] for name in ("id", "text"))
    column = pa.array(texts, pa.large_string())
    size = column.nbytes / 1e6
    print(f"{len(texts):,} documents, {size:.0f} MB")
    lengths = {}
    for modifier in MODIFIERS:
        modifier.modify_texts(column.slice(0, 10))
        seconds, changed = timed(lambda modifier=modifier: modifier.modify_texts(column))
        lengths[type(modifier).__name__] = sum(len(text) for text in changed.to_pylist())
        show(type(modifier).__name__, seconds, size, len(texts))
    config = ftfy.TextFixerConfig(**UnicodeReformatter().config._asdict())
    seconds, _ = timed(lambda: [ftfy.fix_text(text, config) for text in texts])
    show("  ftfy itself", seconds, size, len(texts))

    language = FastTextLangId()
    language.load_model()
    language.score_documents(texts[:10])
    seconds, scores = timed(lambda: language.score_documents(texts))
    show("FastTextLangId", seconds, size, len(texts))
    model = fasttext.load_model(language.model_path)
    lines = [text.strip().replace("\n", " ") for text in texts]
    seconds, peer = timed(lambda: [model.predict(line)[0][0] for line in lines])
    show("  fastText itself", seconds, size, len(texts))
    found = [ast.literal_eval(score)[1] for score in scores]
    same = sum(label == f"__label__{code}" for label, code in zip(peer, found, strict=True))
    print(f"  the same language for {same:,} of {len(texts):,}")
    folders = [re.search(r"/files/([a-z]{2})(?:-[a-z]+)?/", name) for name in ids]
    known = [(folder[1], code) for folder, code in zip(folders, found, strict=True) if folder]
    if known:
        print(f"  right for {sum(a == b for a, b in known) / len(known):.1%} of {len(known):,}")
    if options.peer_python:
        command = [options.peer_python, "-c", PEER, options.corpus, str(options.every)]
        for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
            name, seconds, length = json.loads(line)
            show(f"  NeMo Curator's {name}", seconds, size, len(texts))
            print("  the same number of characters" if length == lengths[name] else "  ANOTHER RESULT")


if __name__ == "__main__":
    main()
