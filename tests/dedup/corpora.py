"""Corpora with known duplicates, and functions that read the results of a run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import InlineExecutor
from penstock.core.files import PLACE_BITS
from penstock.dedup import ExactDeduplicationWorkflow, FuzzyDeduplicationWorkflow
from penstock.dedup.document_ids import ID_FIELD

Document = dict[str, Any]


def essay(seed: int, words: int = 120) -> str:
    """Return a text that shares no shingles with the text of another seed."""
    draw = random.Random(seed)
    return " ".join(
        f"{draw.choice('bcdfgklmnprst')}{draw.choice('aeiou')}{draw.randint(0, 9999)}" for _ in range(words)
    )


def edited(text: str, seed: int, changes: int = 1) -> str:
    """Return a text with some of its words changed."""
    draw = random.Random(seed)
    words = text.split()
    for _ in range(changes):
        words[draw.randrange(len(words))] = f"changed{draw.randint(0, 9999)}"
    return " ".join(words)


def write_jsonl(path: Path, documents: Iterable[Document]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))


def write_parquet(path: Path, documents: Iterable[Document]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(documents)), path)


def read_documents(folder: Path) -> list[Document]:
    """Return all documents of an output, in the order of the files' first documents."""
    found: list[list[Document]] = []
    for path in folder.glob("*.jsonl"):
        found.append([json.loads(line) for line in path.read_text().splitlines()])
    for path in folder.glob("*.parquet"):
        found.append(pq.read_table(path).to_pylist())
    return [document for part in sorted(found, key=lambda part: str(part[0]["id"])) for document in part]


def ids(folder: Path) -> list[Any]:
    """Return the ids of the documents in an output, sorted."""
    return sorted(document["id"] for document in read_documents(folder))


def removed_rows(folder: Path) -> list[Document]:
    """Return the rows of the table of duplicates."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


class Names:
    """Resolves ids of the table of duplicates to documents, from the file that the workflow wrote."""

    def __init__(self, generator: Path) -> None:
        self.files = [entry["path"] for entry in json.loads(generator.read_text())["files"]]

    def name(self, place: int) -> Any:
        """Return the document's own id."""
        file, offset = Path(self.files[place >> PLACE_BITS]), place & ((1 << PLACE_BITS) - 1)
        if file.suffix == ".parquet":
            return pq.read_table(file)["id"][offset].as_py()
        return json.loads(file.read_bytes()[offset:].split(b"\n")[0])["id"]


def kept_by_removed(folder: Path, kind: str = "Fuzzy") -> dict[Any, tuple[Any, float]]:
    """Return the kept document and the similarity for each removed document, by its own id."""
    names = Names(folder / f"{kind.lower()}_id_generator.json")
    rows = removed_rows(folder / f"{kind}DuplicateIds")
    return {names.name(row[ID_FIELD]): (names.name(row["kept_id"]), row["similarity"]) for row in rows}


def quiet() -> InlineExecutor:
    return InlineExecutor(show_progress=False)


def contents(folder: Path, patterns: Sequence[str] = ("deduplicated/*.*", "*DuplicateIds/*")) -> dict[str, bytes]:
    """Return every file of a result, by name."""
    files = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# -- a corpus with copies and edited copies, and the workflows on it ----------------------------------------------

Write = Callable[[Path, Any], None]
FORMATS = pytest.mark.parametrize(("kind", "write"), [("jsonl", write_jsonl), ("parquet", write_parquet)])

# Originals 0 to 9; copies of 0 to 4, copies of 5 to 7 with one word changed, a copy of 8 with half its words changed.
ORIGINALS = [{"id": f"o{n}", "text": essay(n), "date": "2020-01-01", "score": n} for n in range(10)]
COPIES = [{"id": f"c{n}", "text": essay(n), "date": "00123", "score": n + 100} for n in range(5)]
EDITED = [
    {"id": f"e{n}", "text": edited(essay(n), n, 60 if n == 8 else 1), "date": "1.10", "score": n} for n in range(5, 9)
]


def write_corpus(folder: Path, kind: str = "jsonl", write: Write = write_jsonl) -> Path:
    write(folder / f"in/a/part.{kind}", ORIGINALS)
    write(folder / f"in/b/part.{kind}", COPIES)
    write(folder / f"in/b/more.{kind}", EDITED)
    return folder / "in"


def exact(folder: Path, output: str = "out", **settings: Any) -> ExactDeduplicationWorkflow:
    given = {"input_path": str(folder / "in"), "input_filetype": "jsonl", "perform_removal": True, **settings}
    return ExactDeduplicationWorkflow(str(folder / output), show_progress=False, **given)


def fuzzy(folder: Path, output: str = "out", **settings: Any) -> FuzzyDeduplicationWorkflow:
    given: dict[str, Any] = {"input_path": str(folder / "in"), "input_filetype": "jsonl", "perform_removal": True}
    given |= {"show_progress": False, **settings}
    return FuzzyDeduplicationWorkflow(str(folder / "cache"), str(folder / output), **given)


KEPT_EXACT = sorted(["e5", "e6", "e7", "e8", *(f"o{n}" for n in range(10))])
KEPT_FUZZY = sorted(["e8", *(f"o{n}" for n in range(10))])
