"""The receipt of a document: the verdict of every stage, the source file and the output file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.files import PLACE_BITS
from penstock.errors import InputError
from penstock.ledger.query.decisions import Decisions, LedgerPosition, assemble
from penstock.ledger.query.duplicates import KeptDuplicate, find_kept_duplicate
from penstock.ledger.query.ledger import Ledger, superseded_blocks
from penstock.ledger.query.source_texts import is_called, rows_before
from penstock.ledger.query.thresholds import shown_parameters
from penstock.ledger.store.fragment import BLOCK, ID, ROW
from penstock.ledger.store.ledger_part import LedgerPart
from penstock.storage.formats import PARQUET, ends_in

# Ids that an error message shows.
_MAX_SHOWN_IDS = 3
_MAX_COMPARED_IDS = 200_000
# Fuzzy matching is slow, so it compares fewer ids.
_MAX_FUZZY_IDS = 20_000


@dataclass(frozen=True)
class ReceiptLine:
    """The verdict of one stage or rule."""

    stage: str
    score: float | None
    threshold: dict[str, Any]
    # "kept", "dropped"; "would drop" and "would keep" (another stage had already dropped it);
    # "not asked", "failed", "read"; "passed" (the stage is not a filter).
    verdict: str


@dataclass(frozen=True)
class Receipt:
    """Everything that the ledger holds about one document."""

    id: str | None
    files: list[str]
    # Row of the document in the file, or the byte offset of its line; see ``unit``.
    row: int
    bytes: int
    kept: bool
    dropped_by: str | None
    written_to: list[str]
    lines: list[ReceiptLine]
    # Sentences about what is unknown or unusual.
    remarks: list[str]
    place: LedgerPosition
    # For a duplicate, the document that was kept instead.
    duplicate_of: KeptDuplicate | None = None
    # The unit of ``row``: "row" or "byte".
    unit: str = "row"


def find_document(ledger: Ledger, wanted: str) -> list[LedgerPosition]:
    """Return the documents with an id, or the document at ``file:row``.

    Raises an InputError with similar ids if no document is found.
    """
    places = list(dict.fromkeys([*_by_id(ledger, wanted), *_by_row(ledger, wanted)]))
    if not places:
        raise InputError(_not_found(ledger, wanted))
    superseded = superseded_blocks(ledger)
    return [place for place in places if place.block not in superseded]


def receipt_of(ledger: Ledger, place: LedgerPosition) -> Receipt:
    """Build the receipt of a document."""
    decisions = assemble([part for part in ledger.parts if place.block in part.blocks], ledger.rules.labels)
    number = decisions.blocks.index(place.block)
    [at] = np.flatnonzero((decisions.block == number) & (decisions.row == place.row))
    about = decisions.about[number]
    dropped = int(decisions.dropped[at])
    dropped_by = decisions.labels[dropped] if dropped >= 0 else None
    failed_at = next((label for label, rows in about.get("failed", {}).items() if place.row in rows), None)
    written = [
        file
        for entry in about.get("written", ())
        if dropped_by is None and place.row in entry.get("rows", [place.row])
        for file in _resolved(ledger, entry["files"])
    ]
    duplicate_of = find_kept_duplicate(ledger, dropped_by, about, place) if dropped_by is not None else None
    files, row, unit = _source_position(ledger, about, place)
    return Receipt(
        id=decisions.ids()[int(at)].as_py(),
        files=files,
        row=row,
        bytes=int(decisions.sizes[at]),
        kept=dropped_by is None and "remade_by" not in about,
        dropped_by=dropped_by,
        written_to=written,
        lines=list(_lines(ledger, decisions, int(at), dropped_by, failed_at, about)),
        remarks=list(_remarks(about, files, dropped_by, failed_at, duplicate_of)),
        place=place,
        duplicate_of=duplicate_of,
        unit=unit,
    )


def _source_position(ledger: Ledger, about: dict[str, Any], place: LedgerPosition) -> tuple[list[str], int, str]:
    """Return the source files of a document (several if they were read together), its row or byte, and the unit."""
    files = list(about.get("files", []))
    read_by = about.get("read", {}).get("by")
    if read_by not in ledger.rules or not ledger.rules[read_by].parameters.get("rows_are_places"):
        return files, ledger.row_in_file(place.block, place.row), "row"
    file = files[place.row >> PLACE_BITS]
    return [file], place.row & ((1 << PLACE_BITS) - 1), "row" if ends_in(file, PARQUET) else "byte"


def _resolved(ledger: Ledger, files: list[str]) -> list[str]:
    """Return the paths of output files; a name without a folder is located next to the run folder."""
    beside = ledger.run_folder.rpartition("/")[0]
    return [file if "/" in file else f"{beside}/{file}" if beside else file for file in files]


def _lines(
    ledger: Ledger, decisions: Decisions, at: int, dropped_by: str | None, failed_at: str | None, about: dict[str, Any]
) -> Iterator[ReceiptLine]:
    recorded = {label: parameters for part in ledger.parts for label, parameters in part.rules.items()}
    labels = ledger.rules.labels
    end = dropped_by or about.get("remade_by")
    read_by = about.get("read", {}).get("by")
    first = labels.index(about["made_by"]) + 1 if "made_by" in about else labels.index(read_by) if read_by else 0
    for number, label in enumerate(labels[first:], start=first):
        is_over = end is not None and number > labels.index(end)
        rules = [rule for rule in decisions.rules if rule == label or rule.startswith(f"{label}/")]
        if label == failed_at:
            yield ReceiptLine(label, None, {}, "failed")
        elif not rules or (label == dropped_by and not any(decisions.fails[rule][at] for rule in rules)):
            if label == dropped_by:
                yield ReceiptLine(label, None, {}, "dropped")
            elif not is_over:
                yield ReceiptLine(label, None, {}, "read" if label == read_by else "passed")
        for rule in rules:
            score = float(decisions.scores(rule)[at])
            threshold = shown_parameters(ledger.rules[label], recorded.get(rule, {}))
            if not decisions.asked[rule][at]:
                verdict = "not asked"
            elif not decisions.fails[rule][at]:
                verdict = "kept" if not is_over else "would keep"
            else:
                verdict = "dropped" if label == dropped_by else "would drop"
            yield ReceiptLine(rule, None if np.isnan(score) else score, threshold, verdict)


def _remarks(
    about: dict[str, Any],
    files: list[str],
    dropped_by: str | None,
    failed_at: str | None,
    duplicate_of: KeptDuplicate | None,
) -> Iterator[str]:
    if duplicate_of is not None:
        yield f"it is a duplicate of {duplicate_of}"
    if len(files) > 1:
        yield f"the {len(files)} files were read together; the row is counted through all of them"
    if failed_at is not None:
        yield f"stage '{failed_at}' failed on it; the error is in dead_letters.jsonl"
    if "made_by" in about:
        yield (
            f"stage '{about['made_by']}' made it; what it was made from is not known, so this receipt starts there"
            + (f" (documents of {about['from_block']})" if about.get("from_block") else "")
        )
    if dropped_by is None and "remade_by" in about:
        yield f"from here on it cannot be followed: stage '{about['remade_by']}' made something new of it"


# -- find a document -------------------------------------------------------------------------------------------


def _by_id(ledger: Ledger, wanted: str) -> Iterator[LedgerPosition]:
    for part in ledger.parts:
        ids = part.read([ID])[ID]
        hits = np.flatnonzero(pc.fill_null(pc.equal(ids, wanted), False).to_numpy())
        if len(hits):
            where = part.read([BLOCK, ROW]).take(pa.array(hits))
            yield from map(LedgerPosition, where[BLOCK].to_pylist(), where[ROW].to_pylist())


def _by_row(ledger: Ledger, wanted: str) -> Iterator[LedgerPosition]:
    """Find ``crawl/a.jsonl:17``: the file may be named by the end of its path."""
    file, _, number = wanted.rpartition(":")
    if not file or not number.isdecimal():
        return
    for part in ledger.parts:
        named = [block for block, about in part.blocks.items() if _is_from(about, file)]
        if named:
            table = part.read([BLOCK, ROW])
            table = table.filter(pc.is_in(table[BLOCK], value_set=pa.array(named)))
            # If a file was read in parts, rows are counted from the start of the part.
            for name in named:
                before = rows_before(ledger.rules, part.blocks[name], file)
                row = int(number) - ledger.row_in_file(name, 0) + before
                hit = pc.and_(pc.equal(table[BLOCK], name), pc.equal(table[ROW], row))
                if row >= 0 and pc.any(hit).as_py():
                    yield LedgerPosition(name, row)


def _is_from(about: dict[str, Any], file: str) -> bool:
    return "made_by" not in about and any(is_called(path, file) for path in about.get("files", ()))


def _not_found(ledger: Ledger, wanted: str) -> str:
    ids = list(islice(_some_ids(ledger.parts), _MAX_COMPARED_IDS))
    files = sorted({file for part in ledger.parts for about in part.blocks.values() for file in about.get("files", ())})
    near = (
        difflib.get_close_matches(wanted, ids[:_MAX_FUZZY_IDS], n=_MAX_SHOWN_IDS)
        or [i for i in ids if wanted in i][:_MAX_SHOWN_IDS]
    )
    look = ", ".join(repr(given) for given in ids[:_MAX_SHOWN_IDS])
    lines = [f"{ledger.run_folder}: no document '{wanted}' in the ledger of this run."]
    if near:
        lines.append(f"Similar ids: {', '.join(repr(given) for given in near)}.")
    lines.append(
        f"Ids look like {look}." if ids else f"Documents have no id here (no {' or '.join(ledger.rules.id_fields)})."
    )
    if files:
        lines.append(f"A document can also be named by file and row, counted from 0: {files[0]}:0")
    return " ".join(lines)


def _some_ids(parts: list[LedgerPart]) -> Iterator[str]:
    for part in parts:
        yield from part.read([ID])[ID].drop_null().slice(0, _MAX_COMPARED_IDS).to_pylist()
