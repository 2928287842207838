"""Read documents again from their source files, with the reader stage of the run."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.errors import PenstockError
from penstock.ledger.query.decisions import LedgerPosition
from penstock.ledger.query.ledger import Ledger
from penstock.ledger.query.thresholds import load_decider
from penstock.ledger.store.rules import Rules

# A document as its reader returns it, or the reason why it cannot be read.
Found = dict[str, Any] | str


def read_again(rules: Rules, about: dict[str, Any], rows: Iterable[int]) -> dict[int, Found]:
    """Return documents of a block by row, or for each the reason why it cannot be read."""
    wanted = sorted(set(rows))
    if "made_by" in about:
        return dict.fromkeys(wanted, f"was made by stage '{about['made_by']}' and is in no source file")
    if "read" not in about:
        return dict.fromkeys(wanted, "came from no file")
    try:
        found = _find(rules, about["read"], wanted)
    except (PenstockError, OSError, TypeError, ValueError) as error:
        return dict.fromkeys(wanted, f"cannot be read again: {error}")
    return {row: found.get(row, "is no longer there: the file has changed since the run") for row in wanted}


def rows_before(rules: Rules, about: dict[str, Any], file: str) -> int:
    """Count the documents of a block that come from files before this one, by reading those files again."""
    files = about.get("read", {}).get("data", [])
    earlier = files[: next((n for n, path in enumerate(files) if is_called(path, file)), 0)]
    return sum(batch.num_items for path in earlier for batch in _batches(rules, {**about["read"], "data": [path]}))


def is_called(path: str, name: str) -> bool:
    """Return whether ``name`` is the path or the end of the path."""
    return path == name or path.endswith(f"/{name}")


def _find(rules: Rules, read: dict[str, Any], wanted: list[int]) -> dict[int, Found]:
    found: dict[int, Found] = {}
    for batch in _batches(rules, read):
        rows = batch.source_rows if batch.source_rows is not None else np.arange(batch.num_items)
        here = np.flatnonzero(np.isin(rows, wanted))
        documents = batch.select(here).to_pyarrow().to_pylist()
        found.update(zip(rows[here].tolist(), documents, strict=True))
        if len(found) == len(wanted):
            break
    return found


def _batches(rules: Rules, read: dict[str, Any]) -> Iterator[DocumentBatch]:
    task = FileGroupTask(
        read["dataset_name"], list(read["data"]), _metadata=read["metadata"], reader_config=read["reader_config"]
    )
    task.task_id = read["task_id"]
    stage = next(stage for stage in rules.stages if stage.label == read["by"])
    reader = load_decider(stage)
    taken = inspect.signature(reader).parameters
    made: Any = reader(**{key: value for key, value in stage.parameters.items() if key in taken})
    result = made.process(task)
    batches = [result] if result is None or isinstance(result, DocumentBatch) else result
    yield from (batch for batch in batches if isinstance(batch, DocumentBatch))


def read_texts(ledger: Ledger, places: Sequence[LedgerPosition]) -> list[str]:
    """Return the texts of documents, in order. Each source is read once; a missing text is replaced by the reason."""
    about = {name: info for part in reversed(ledger.parts) for name, info in part.blocks.items() if "files" in info}
    rows: dict[str, list[int]] = {}
    for place in places:
        rows.setdefault(place.block, []).append(place.row)
    found = {name: read_again(ledger.rules, about.get(name, {}), wanted) for name, wanted in rows.items()}
    return [_text(found[place.block][place.row], ledger.rules) for place in places]


def _text(document: Found, rules: Rules) -> str:
    if isinstance(document, str):
        return f"(its text {document})"
    field = next((stage.text_field for stage in rules.stages if stage.text_field in document), None)
    return str(document[field]) if field is not None else str(document)
