"""Protect the result of another input: an output folder that holds one is replaced only with ``overwrite``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.dedup.document_ids import FileTable
from penstock.dedup.phases import exists
from penstock.errors import OutputError
from penstock.storage.filesystem import filesystem_of, open_stored, remove_folder
from penstock.storage.input_files import FileMark
from penstock.storage.run_folder import FOLDER_NAME
from penstock.storage.same_place import resolved

DEDUPLICATED = "deduplicated"
# For each kind of deduplication, the folder of its table in the output.
TABLES = {
    "exact": "ExactDuplicateIds",
    "url": "UrlDuplicateIds",
    "fuzzy": "FuzzyDuplicateIds",
    "line": "CutLines",
    "paragraph": "CutParagraphs",
}


def id_generator(output_path: str, kind: str) -> str:
    """Return the path of the JSON file that lists the input files that ids refer to."""
    return f"{output_path}/{kind}_id_generator.json"


def take_output(
    output_path: str,
    kind: str,
    table: FileTable,
    marks: Sequence[FileMark],
    given: Sequence[str],
    *,
    overwrite: bool,
) -> None:
    """Record which input an output folder belongs to; raise ``OutputError`` if it holds the result of another input.

    ``marks`` identify the files; ``given`` are the paths as the user wrote them. With ``overwrite`` the result of the
    other input is removed.
    """
    places = sorted({resolved(path) for path in given})
    others = []
    known = False
    for other in TABLES:
        if exists(path := id_generator(output_path, other)):
            with open_stored(path) as stream:
                record = json.loads(stream.read())
            known = True
            if record.get("input") != places and [file["path"] for file in record["files"]] != list(table.paths):
                others.append((other, _shown(record)))
    if not known and _holds_documents(f"{output_path}/{DEDUPLICATED}"):
        others.append(("", "an input that is not recorded"))
    if others and not overwrite:
        raise OutputError(
            f"{output_path}: holds the result of another input: {others[0][1]}. Choose another output, or "
            "replace this one with --overwrite (in Python: overwrite=True)."
        )
    for other, _ in others:
        if other:
            remove_folder(f"{output_path}/{TABLES[other]}")
            filesystem, name = filesystem_of(id_generator(output_path, other))
            filesystem.rm(name)
    if others:
        remove_folder(f"{output_path}/{DEDUPLICATED}")
    table.save(id_generator(output_path, kind), places, marks)


def _shown(record: dict[str, Any]) -> str:
    names = record.get("input") or [file["path"] for file in record["files"]]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else "no files"


def _holds_documents(folder: str) -> bool:
    filesystem, name = filesystem_of(folder)
    if not filesystem.exists(name):
        return False
    return any(f"/{FOLDER_NAME}/" not in str(path) for path in filesystem.find(name))
