"""Small runs that write a ledger, for the tests of the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock import InlineExecutor, Pipeline, StreamingExecutor
from penstock.core.stage import ProcessingStage
from penstock.ledger.query.ledger import Ledger, find_ledger
from penstock.text import JsonlReader, JsonlWriter, RepeatedLinesFilter, ScoreFilter, WordCountFilter

Stage = ProcessingStage[Any, Any]


def write_documents(folder: Path, files: int = 2, documents: int = 6) -> Path:
    """Write documents of 0, 1, 2, … words; every third document repeats its only line."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(files):
        lines = []
        for number in range(documents):
            text = " ".join(["word"] * number)
            text = f"{text}\n{text}" if number % 3 == 2 else text
            lines.append(json.dumps({"id": f"{file}-{number}", "text": text}))
        (folder / f"part-{file}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


class PlainRepeatedLines(RepeatedLinesFilter):
    """Scores one document at a time, like a user-defined filter: only documents that reach it."""

    def score_document(self, text: str) -> float:
        return super().score_document(text)


def filters() -> list[Stage]:
    return [ScoreFilter(WordCountFilter(min_words=2)), ScoreFilter(PlainRepeatedLines())]


def run(folder: Path, stages: Sequence[Stage], *, inline: bool = True, **settings: Any) -> Ledger:
    """Run stages between a reader and a writer, and open the ledger."""
    if not (folder / "crawl").exists():
        write_documents(folder / "crawl")
    reader = JsonlReader(folder / "crawl", blocksize=settings.pop("blocksize", None))
    pipeline = Pipeline("p", stages=[reader, *stages, JsonlWriter(folder / "clean")])
    checkpoint = settings.pop("checkpoint_path", None)
    executor = InlineExecutor if inline else StreamingExecutor
    pipeline.run(executor(show_progress=False, **settings), checkpoint_path=checkpoint)
    return find_ledger(str(folder / "clean"))


def fates(ledger: Ledger) -> dict[str, str]:
    """Return for each document id the stage that dropped it, or "kept"."""
    found: dict[str, str] = {}
    for decisions in ledger.shards():
        names = [decisions.labels[number] if number >= 0 else "kept" for number in decisions.dropped]
        found.update(zip(decisions.ids().to_pylist(), names, strict=True))
    return found


def files_of(ledger: Ledger) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(ledger.folder).iterdir())}
