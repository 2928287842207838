"""Modify: one modifier or a chain, one field or several, in place or in another column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline
from penstock.core.stage import ProcessingStage
from penstock.errors import StageError
from penstock.plan.fuse import fuse
from penstock.testing import assert_stage_contract, make_batch, run_stage
from penstock.text import (
    DocumentModifier,
    JsonlReader,
    JsonlWriter,
    Modify,
    NewlineNormalizer,
    QuotationRemover,
    UrlRemover,
)


class Prefix(DocumentModifier):
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def modify_document(self, text: str) -> str:
        return self.prefix + text


def texts(stage: Modify, batch: DocumentBatch, field: str = "text") -> list[Any]:
    [changed] = run_stage(stage, batch)
    values: list[Any] = changed.to_pyarrow()[field].to_pylist()  # type: ignore[attr-defined]
    return values


def test_modifiers_and_functions_in_turn() -> None:
    stage = Modify([Prefix("a"), str.upper, lambda text: text + "!"])
    assert texts(stage, make_batch(["x", None, ""])) == ["AX!", None, "A!"]
    assert_stage_contract(stage, make_batch(["x"]))


def test_each_modifier_has_its_own_fields() -> None:
    stage = Modify([str.upper, len], ["title", "text"], [None, "length"])
    [changed] = run_stage(stage, make_batch(["four", None], title=["a", "b"]))
    assert changed.to_pyarrow().to_pydict() == {  # type: ignore[attr-defined]
        "id": ["doc-0", "doc-1"], "text": ["four", None], "title": ["A", "B"], "length": [4, None],
    }  # fmt: skip
    assert stage.inputs() == (["data"], ["title", "text"])
    assert stage.outputs() == (["data"], ["title", "length"])


def test_a_modifier_of_several_fields_takes_them_by_name() -> None:
    stage = Modify(lambda text, n: text if n is None else text * n, [["text", "n"]], "repeated")
    assert texts(stage, make_batch(["ab", "c"], n=[2, None]), "repeated") == ["abab", "c"]


def test_a_later_modifier_sees_what_an_earlier_one_made() -> None:
    stage = Modify([len, lambda n: n + 1], ["text", "length"], "length")
    assert texts(stage, make_batch(["abc"]), "length") == [4]
    assert stage.inputs() == (["data"], ["text"])


def test_other_columns_than_text() -> None:
    assert texts(Modify(float, "n"), make_batch(["a", "b"], n=[1, None]), "n") == [1.0, None]
    assert texts(Modify(lambda tags: [*tags, "x"], "tags"), make_batch(["a"], tags=[["y"]]), "tags") == [["y", "x"]]


def test_an_unchanged_batch_is_returned_as_the_same_object() -> None:
    batch = make_batch(["plain", None])
    assert Modify([UrlRemover(), str.strip, QuotationRemover()]).process(batch) is batch


def test_modify_keeps_source_rows() -> None:
    batch = make_batch(["a", "b"])
    batch.source_rows = np.array([4, 7])
    changed = Modify(Prefix("x")).process(batch)
    assert changed.source_rows is not None
    assert changed.source_rows.tolist() == [4, 7]


def test_slices_and_chunked_tables_are_modified_correctly() -> None:
    table = pa.table({"text": pa.chunked_array([["www.a b", "c"], [], ["www.d", None]])})
    assert texts(Modify(UrlRemover()), DocumentBatch("test", table)) == [" b", "c", "", None]
    assert texts(Modify(UrlRemover()), DocumentBatch("test", table.slice(1, 2))) == ["c", ""]


def test_adjacent_stages_merge_and_each_keeps_its_counts() -> None:
    stages: list[ProcessingStage[Any, Any]] = [
        Modify(UrlRemover()).with_(name="urls"),
        Modify([str.strip, Prefix("-")]),
    ]
    [pool] = fuse(stages)
    [merged] = pool.steps
    assert [part.name for part in merged.parts()] == ["urls", "strip", "Prefix"]
    assert isinstance(merged, Modify)
    assert texts(merged, make_batch(["x www.y"])) == ["-x"]
    merged.process(make_batch(["x www.y", "z"]))
    assert [(count.items_in, count.items_out) for count in merged.take_part_counts()] == [(2, 2)] * 3


def test_jsonl_to_jsonl(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [{"text": "a\n\n\n\nb", "n": 10**30}, {"text": None, "n": 1}, {"text": "c", "n": [2]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pipeline = Pipeline(
        "modify",
        stages=[JsonlReader(tmp_path / "in.jsonl"), Modify(NewlineNormalizer()), JsonlWriter(tmp_path / "out")],
    )
    pipeline.run(InlineExecutor())
    [written] = (tmp_path / "out").glob("*.jsonl")
    assert [json.loads(line) for line in written.read_text().splitlines()] == [
        {**lines[0], "text": "a\n\nb"},
        *lines[1:],
    ]


def test_text_in_a_column_of_mixed_values(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text":"see www.a"}\n{"text":5}\n')
    Pipeline(
        "mixed", stages=[JsonlReader(tmp_path / "in.jsonl"), Modify(UrlRemover()), JsonlWriter(tmp_path / "out")]
    ).run(InlineExecutor())
    [written] = (tmp_path / "out").glob("*.jsonl")
    assert written.read_text() == '{"text":"see "}\n{"text":"5"}\n'


def test_a_failing_modifier_is_named_with_the_document() -> None:
    with pytest.raises(StageError, match=r"stage 'int': the modifier failed on document 1 of the batch \('x'…\)"):
        Modify(int, "text").process(make_batch(["1", "x"]))
    with pytest.raises(StageError, match="does not fit into the column 'text'"):
        Modify(lambda text: 1 if text == "a" else "b").process(make_batch(["a", "b"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "list of modifiers is empty"),
        (("strip",), "functions, got 'strip'"),
        ((str.strip, ["a", "b"]), "2 entries for 1 modifiers"),
        ((str.strip, []), "0 entries for 1 modifiers"),
        (([str.strip, str.upper], "text", ["a", "b", "c"]), "output_fields has 3 entries for 2 modifiers"),
        ((max, [["a", "b"]]), "Name the column for it in output_fields"),
        ((max, [[]]), "has no input field"),
    ],
)
def test_invalid_arguments_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Modify(*arguments)
