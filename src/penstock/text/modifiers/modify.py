"""Modifiers as a stage: change fields of documents. Neighbours merge into one pass over the batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.core.counters import PartCount
from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage, Spec
from penstock.errors import StageError
from penstock.text.modifiers.document_modifier import DocumentModifier, TextModifier
from penstock.text.text_column import text_column, values_of

Modifier: TypeAlias = DocumentModifier | Callable[..., Any]


@dataclass(frozen=True)
class Change:
    """One modifier and the fields it reads and writes."""

    name: str
    modifier: Modifier
    inputs: tuple[str, ...]
    output: str


class Modify(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Change documents with one modifier, or with each of several in turn.

    A modifier is a ``DocumentModifier`` or a plain function. ``input_fields`` is one field for all modifiers, a list
    with one field for each, or a list of lists: a modifier of several fields takes them as keyword arguments.
    ``output_fields`` names the columns for the results; by default they replace the input. A null value remains null
    and is not passed to a modifier of a single field; a modifier of several fields receives None.

    >>> from penstock.testing import make_batch
    >>> from penstock.text import UrlRemover
    >>> batch = make_batch(["see www.example.org", None], title=["A", "B"])
    >>> Modify([UrlRemover(), str.strip]).process(batch).to_pyarrow()["text"].to_pylist()
    ['see', None]
    >>> joined = Modify(lambda title, text: f"{title}: {text}", [["title", "text"]], "headed")
    >>> joined.process(batch).to_pyarrow()["headed"].to_pylist()
    ['A: see www.example.org', 'B: None']
    """

    name = "modify"

    def __init__(
        self,
        modifier_fn: Modifier | Sequence[Modifier],
        input_fields: str | Sequence[str] | Sequence[Sequence[str]] = "text",
        output_fields: str | Sequence[str | None] | None = None,
    ) -> None:
        modifiers: list[Modifier] = list(modifier_fn) if isinstance(modifier_fn, list | tuple) else [modifier_fn]  # type: ignore[list-item]
        if not modifiers:
            raise ValueError("Modify: the list of modifiers is empty.")
        for given in modifiers:
            if not (isinstance(given, DocumentModifier) or callable(given)):
                raise TypeError(f"Modify takes DocumentModifier objects and functions, got {given!r}.")
        self.input_fields = input_fields
        self.output_fields = output_fields
        inputs = [_fields(entry) for entry in _each(input_fields, len(modifiers), "input_fields")]
        outputs = _each(output_fields, len(modifiers), "output_fields")
        self.changes = [
            Change(_name(modifier), modifier, fields, output or _in_place(modifier, fields))
            for modifier, fields, output in zip(modifiers, inputs, outputs, strict=True)
        ]
        self.name = " + ".join(change.name for change in self.changes)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the changed documents; the same batch object if nothing changed."""
        changed = task
        for change in self.changes:
            start, before = time.perf_counter(), changed
            changed = _apply(change, before)
            self._count(before, changed, time.perf_counter() - start)
        return changed

    def inputs(self) -> Spec:
        """Return the fields that no earlier modifier of this stage writes."""
        needed: dict[str, None] = {}
        made: set[str] = set()
        for change in self.changes:
            needed.update(dict.fromkeys(field for field in change.inputs if field not in made))
            made.add(change.output)
        return ["data"], list(needed)

    def outputs(self) -> Spec:
        """Return the fields that are changed or added."""
        return ["data"], list(dict.fromkeys(change.output for change in self.changes))

    def merge(self, next_stage: ProcessingStage[Any, Any]) -> Modify | None:
        """Merge the next Modify stage, so that it works on data that is still in the CPU cache."""
        if type(self) is not Modify or type(next_stage) is not Modify:
            return None
        return _of_changes([*self._named_changes(), *next_stage._named_changes()])

    def parts(self) -> list[ProcessingStage[Any, Any]]:
        """Return one stage per modifier."""
        return [self] if len(self.changes) == 1 else [_of_changes([change]) for change in self.changes]

    def take_part_counts(self) -> list[PartCount]:
        """Return the counts of each modifier since the last call."""
        taken: list[PartCount] = self.__dict__.pop("_part_counts", [])
        return taken

    def _count(self, before: DocumentBatch, after: DocumentBatch, seconds: float) -> None:
        count = PartCount(before.num_items, after.num_items, seconds, before.num_bytes, after.num_bytes)
        self.__dict__.setdefault("_part_counts", []).append(count)

    def _named_changes(self) -> list[Change]:
        """Return the changes; a single change has the stage's name, which ``with_(name=…)`` may have changed."""
        return self.changes if len(self.changes) > 1 else [replace(self.changes[0], name=self.name)]


def _of_changes(changes: list[Change]) -> Modify:
    modify = Modify([c.modifier for c in changes], [c.inputs for c in changes], [c.output for c in changes])
    modify.changes = changes
    modify.name = " + ".join(change.name for change in changes)
    if len(changes) == 1 and len(changes[0].inputs) == 1:
        modify.input_fields = changes[0].inputs[0]  # as a user would write it, for error messages
    return modify


def _each(given: Any, count: int, argument: str) -> list[Any]:  # noqa: ANN401 - a value, or a list of them
    """Return one entry per modifier, from a single value or from a list of that length."""
    if given is None or isinstance(given, str):
        return [given] * count
    entries = list(given)
    if len(entries) == 1:
        return entries * count
    if len(entries) != count:
        raise ValueError(
            f"Modify: {argument} has {len(entries)} entries for {count} modifiers. Give one per modifier; "
            "several fields for one modifier are a list in the list."
        )
    return entries


def _fields(entry: str | Sequence[str] | None) -> tuple[str, ...]:
    fields = (entry,) if isinstance(entry, str) else tuple(entry or ())
    if not fields:
        raise ValueError("Modify: a modifier has no input field. Name the field it works on.")
    return fields


def _name(modifier: Modifier) -> str:
    if isinstance(modifier, DocumentModifier):
        return modifier.name
    return str(getattr(modifier, "__name__", type(modifier).__name__))


def _in_place(modifier: Modifier, fields: tuple[str, ...]) -> str:
    if len(fields) > 1:
        raise ValueError(
            f"Modify: '{_name(modifier)}' makes one value of {', '.join(fields)}. "
            "Name the column for it in output_fields."
        )
    return fields[0]


def _apply(change: Change, batch: DocumentBatch) -> DocumentBatch:
    """Return the batch after one change; the same batch object if nothing changed."""
    if len(change.inputs) > 1:
        columns = [values_of(batch, field) for field in change.inputs]
        values = [dict(zip(change.inputs, row, strict=True)) for row in zip(*columns, strict=True)]
        return _with(batch, change, _call_each(change, values))
    in_place = change.output == change.inputs[0]
    texts = text_column(batch, change.inputs[0])
    if texts is not None and isinstance(change.modifier, TextModifier):
        modified = change.modifier.modify_texts(texts)
        return batch if in_place and modified is texts else batch.with_columns({change.output: modified})
    before = values_of(batch, change.inputs[0])
    after = _call_each(change, before)
    # Texts only: the numbers 1 and 1.0 are equal, but replacing one by the other is a change.
    if in_place and texts is not None and before == after:
        return batch
    return _with(batch, change, after)


def _call_each(change: Change, values: Sequence[Any]) -> list[Any]:
    modifier = change.modifier
    call = modifier.modify_document if isinstance(modifier, DocumentModifier) else modifier
    several = len(change.inputs) > 1
    results = []
    for row, value in enumerate(values):
        try:
            results.append(call(**value) if several else None if value is None else call(value))
        except Exception as error:
            raise StageError(
                f"stage '{change.name}': the modifier failed on document {row} of the batch "
                f"({value!r:.60}…): {type(error).__name__}: {error}"
            ) from error
    return results


def _with(batch: DocumentBatch, change: Change, values: list[Any]) -> DocumentBatch:
    kind = pa.large_string() if all(value is None or isinstance(value, str) for value in values) else None
    try:
        return batch.with_columns({change.output: pa.array(values, kind)})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise StageError(
            f"stage '{change.name}': what it returns does not fit into the column '{change.output}': {error}. "
            "A column holds values of one type."
        ) from error
