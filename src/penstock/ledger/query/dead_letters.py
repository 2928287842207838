"""Look up the dead letters of a run by document or by line of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from penstock.errors import InputError
from penstock.ledger.query.receipts import Receipt
from penstock.storage.filesystem import open_input


def dead_letters(run_folder: str) -> Iterator[dict[str, Any]]:
    """Yield the dead letters of a run."""
    try:
        with open_input(f"{run_folder}/dead_letters.jsonl") as stream:
            yield from map(json.loads, stream)
    except InputError:
        return  # the run has no dead letters


def dead_letters_at(run_folder: str, wanted: str) -> list[dict[str, Any]]:
    """Return the dead letters at ``file:line``; the file may be named by the end of its path."""
    file, _, number = wanted.rpartition(":")
    if not file or not number.isdecimal():
        return []
    return [
        letter
        for letter in dead_letters(run_folder)
        if letter["position"] == int(number)
        and not letter["failed"]
        and (letter["source"] == file or letter["source"].endswith(f"/{file}"))
    ]


def failure_of(run_folder: str, receipt: Receipt) -> dict[str, Any] | None:
    """Return the dead letter of a failed document, or None if it cannot be told from others of the same task."""
    stage = next((line.stage for line in receipt.lines if line.verdict == "failed"), None)
    if stage is None:
        return None
    task = receipt.place.block.partition("@")[0]
    letters = [letter for letter in dead_letters(run_folder) if letter["failed"] and letter["task_id"].startswith(task)]
    named = [letter for letter in letters if receipt.id is not None and json.dumps(receipt.id) in letter["excerpt"]]
    return next(iter(named or (letters if len(letters) == 1 else [])), None)
