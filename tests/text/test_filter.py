"""``Filter``: keep documents by the value of a column."""

from typing import Any

import pytest
from recorded import with_ledger

from penstock import DocumentBatch
from penstock.errors import StageError
from penstock.testing import make_batch, run_stage
from penstock.text import Filter, WordCountFilter
from penstock.text.io.json_rows import parse_rows


def test_a_filter_uses_the_value_of_an_existing_column() -> None:
    batch = make_batch(["x"] * 4, lang=["en", "de", "en", None], words=[5, 60, 70, 80])
    [kept] = run_stage(Filter([lambda lang: lang == "en", WordCountFilter()], ["lang", "words"]), batch)
    assert kept.data["id"].to_pylist() == ["doc-2"]
    [kept] = run_stage(Filter(WordCountFilter(), "words", invert=True), batch)
    assert kept.data["id"].to_pylist() == ["doc-0"]
    [kept] = run_stage(Filter([str.isupper, str.islower], ["id", "text"], invert=[True, False]), batch)
    assert kept.num_items == 4
    assert Filter(WordCountFilter(), "words").name == "word_count"


def test_a_filter_on_a_column_of_mixed_types_receives_the_original_values() -> None:
    rows = parse_rows(b'{"tags": ["a", "b"]}\n{"tags": "a"}\n{"tags": 1}\n{"tags": null}\n{"id": 1}\n{"tags": [1e400]}')
    seen: list[Any] = []

    def look(value: Any) -> bool:
        seen.append(value)
        return True

    run_stage(Filter(look, "tags"), DocumentBatch("d", rows))
    assert seen == [["a", "b"], "a", 1, None, None, [float("inf")]]


def test_a_filter_on_a_column_tells_the_ledger() -> None:
    _, [verdicts] = with_ledger(Filter(WordCountFilter(), "words"), make_batch(["x"] * 2, words=[5, 60]))
    assert verdicts.name == "word_count"
    assert verdicts.rows.tolist() == [0, 10]
    assert verdicts.kept.tolist() == [False, True]
    assert verdicts.scores is not None
    assert verdicts.scores.tolist() == [5.0, 60.0]


def test_a_function_that_fails_on_a_value_names_the_document() -> None:
    with pytest.raises(StageError, match=r"filter_fn failed on document 1 of the batch \(None\): TypeError"):
        run_stage(Filter(lambda words: words > 3, "words"), make_batch(["x"] * 2, words=[5, None]))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([len, len], "a"), ValueError, "say which field each of the 2 filters looks at"),
        (([len, len], ["a", "b"], [True]), ValueError, "invert has 1 entries for 2 filters"),
        ((5, "a"), TypeError, "functions of a value, got 5"),
        ((WordCountFilter, "a"), TypeError, "functions of a value"),
    ],
)
def test_a_filter_that_cannot_work_is_refused(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Filter(*arguments)
