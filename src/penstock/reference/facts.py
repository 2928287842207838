"""What is known of an entry besides its docstring, as short labelled sentences for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.reference.entry import Entry
from penstock.reference.trial import Columns, EmptyScore

_TASK_SOURCES = {"EmptyTask": "nothing: it is the first stage of a pipeline", "Any": "any task"}


def facts(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield labels and sentences.

    >>> from penstock.reference.catalogue import entries
    >>> dict(facts(entries()["WordCountFilter"]))["Empty document"]
    'scores 0 and is dropped with the default parameters'
    """
    yield "Import", f"from {entry.module} import {entry.name}"
    if entry.reported_as:
        yield "Appears as", f"{entry.reported_as}, in tables and receipts"
    if entry.is_filter and not entry.is_stage:
        yield "Reads", "the column that ScoreFilter or Score is given as text_field (default: text)"
        yield "Writes", "its score, into score_field of ScoreFilter or Score; no column without one"
        yield "Empty document", _empty(entry.empty_score)
    if entry.columns is not None:
        yield from _columns(entry.columns)


def _empty(score: EmptyScore | None) -> str:
    if score is None:
        return "depends on the model or file it is given; see the description"
    given = f"the parameters {score.arguments}" if score.arguments else "the default parameters"
    return f"scores {score.score} and is {'kept' if score.is_kept else 'dropped'} with {given}"


def _columns(columns: Columns) -> Iterator[tuple[str, str]]:
    yield "Takes", _TASK_SOURCES.get(columns.takes, columns.takes)
    yield "Returns", "any task" if columns.returns == "Any" else columns.returns
    if columns.takes == "DocumentBatch":
        yield "Reads", _listed(columns.needed, "whatever columns the batch has")
    if columns.returns == "DocumentBatch":
        nothing = "the columns of its input" if columns.takes == "DocumentBatch" else "the columns the files have"
        yield "Writes", _listed(columns.added, nothing)
    elif columns.takes == "DocumentBatch" and columns.returns == "FileGroupTask":
        yield "Writes", "files, and passes their names on"


def _listed(columns: tuple[str, ...] | None, nothing: str) -> str:
    if columns is None:
        return "columns that depend on its arguments"
    return f"column{'s' * (len(columns) != 1)} {', '.join(columns)}" if columns else nothing
