"""ScoreFilter and Score: one filter or several, merged or separate, keep the same documents."""

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import with_ledger

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, Task
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import StageError
from penstock.plan.fuse import fuse
from penstock.testing import make_batch, run_stage
from penstock.text import (
    BoilerPlateStringFilter,
    DocumentFilter,
    NonAlphaNumericFilter,
    RepeatedLinesFilter,
    RepeatingDuplicateNGramsFilter,
    Score,
    ScoreFilter,
    WordCountFilter,
)
from penstock.text.io.json_rows import parse_rows

TWO_WORDS = WordCountFilter(min_words=2)


class Length(DocumentFilter):
    """A filter in plain Python, as a user writes it."""

    def __init__(self, limit: int = 5) -> None:
        self.limit = limit

    def score_document(self, text: str) -> int:
        return len(text)

    def keep_document(self, score: int) -> bool:
        return score <= self.limit


def texts(tasks: list[Task[Any]]) -> list[str]:
    return [text for task in tasks for text in task.data["text"].to_pylist()]


def run(stages: list[ProcessingStage[Any, Any]], batch: DocumentBatch) -> DocumentBatch:
    [result] = Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False), [batch])
    assert isinstance(result, DocumentBatch)
    return result


def apart(stages: list[ProcessingStage[Any, Any]], batch: DocumentBatch) -> DocumentBatch:
    for stage in stages:
        [result] = run_stage(stage, batch)
        assert isinstance(result, DocumentBatch)
        batch = result
    return batch


def test_documents_that_pass_are_kept_whole_and_in_order() -> None:
    batch = make_batch(["one two", "one", "three four"], url=["a", "b", "c"])
    [kept] = run_stage(ScoreFilter(TWO_WORDS), batch)
    assert kept.data.to_pylist() == [
        {"id": "doc-0", "text": "one two", "url": "a"},
        {"id": "doc-2", "text": "three four", "url": "c"},
    ]


def test_a_score_can_be_kept_and_a_decision_inverted() -> None:
    [kept] = run_stage(ScoreFilter(TWO_WORDS, score_field="words", invert=True), make_batch(["one two", "one"]))
    assert kept.data.to_pylist() == [{"id": "doc-1", "text": "one", "words": 1}]


def test_a_score_replaces_a_column_of_the_same_name() -> None:
    [kept] = run_stage(ScoreFilter(TWO_WORDS, score_field="words"), make_batch(["one two"], words=["old"], z=[1]))
    assert kept.data.to_pylist() == [{"id": "doc-0", "text": "one two", "words": 2, "z": 1}]


def test_the_text_field_can_be_set() -> None:
    [kept] = run_stage(ScoreFilter(TWO_WORDS, text_field="body"), make_batch(["one two", "one"], text_field="body"))
    assert kept.num_items == 1


def test_a_user_writes_a_filter_in_plain_python() -> None:
    stage = ScoreFilter(Length(3), score_field="length")
    assert stage.name == "Length"
    [kept] = run_stage(stage, make_batch(["abc", "abcd", None]))
    assert kept.data["length"].to_pylist() == [3, 0]


@pytest.mark.parametrize("score", [[0.5, 0.25], {"en": 0.5}, "label", True, None, 2.5], ids=str)
def test_a_score_may_be_anything(score: Any) -> None:
    class Any_(DocumentFilter):  # noqa: N801
        def score_document(self, text: str) -> Any:
            return score

        def keep_document(self, score: Any) -> bool:
            return True

    [kept] = run_stage(ScoreFilter(Any_(), score_field="s"), make_batch(["a", "b", "c"]))
    assert kept.data["s"].to_pylist() == [score] * 3


def test_models_are_fetched_once_per_node_and_loaded_once_per_worker() -> None:
    calls: list[str] = []

    class Model(Length):
        def model_check_or_download(self) -> None:
            calls.append("download")

        def load_model(self) -> None:
            calls.append("model")

        def load_tokenizer(self) -> None:
            calls.append("tokenizer")

    stage = ScoreFilter(Model())
    stage.setup_on_node(NodeInfo(), WorkerMetadata())
    assert calls == ["download"]
    stage.setup(WorkerMetadata())
    assert calls == ["download", "model", "tokenizer"]


def test_several_filters_apply_in_turn_each_with_its_own_arguments() -> None:
    stage = ScoreFilter(
        [TWO_WORDS, Length(9), RepeatedLinesFilter()],
        text_field=["text", "title", "text"],
        score_field=["words", None, "lines"],
        invert=[False, True, False],
    )
    batch = make_batch(["a b", "a b", "a", "a\na b"], title=["a long title", "short", "a long title", "a long title"])
    assert stage.inputs() == (["data"], ["text", "title"])
    assert stage.outputs() == (["data"], ["words", "lines"])
    [kept] = run_stage(stage, batch)
    assert [(row["id"], row["words"], row["lines"]) for row in kept.data.to_pylist()] == [
        ("doc-0", 2, 1.0),
        ("doc-3", 3, 1.0),
    ]


@pytest.mark.parametrize("argument", ["text_field", "score_field", "invert"])
def test_a_list_of_the_wrong_length_is_refused(argument: str) -> None:
    # The incumbent takes invert=[False] for two filters and inverts them both.
    values: dict[str, Any] = {"text_field": ["text"], "score_field": ["s"], "invert": [False]}
    with pytest.raises(ValueError, match=f"{argument} has 1 entries for 2 filters"):
        ScoreFilter([TWO_WORDS, Length()], **{argument: values[argument]})


def test_one_argument_value_applies_to_all_filters() -> None:
    batch = make_batch(["a", "a b", "a b c d e"])
    [kept] = run_stage(ScoreFilter([TWO_WORDS, Length(3)], invert=False), batch)
    assert texts([kept]) == ["a b"]
    [inverted] = run_stage(ScoreFilter([TWO_WORDS, WordCountFilter(min_words=0, max_words=0)], invert=True), batch)
    assert texts([inverted]) == ["a"]


@pytest.mark.parametrize("wrong", [WordCountFilter, [WordCountFilter], "word_count", [len], None])
def test_an_object_that_is_not_a_filter_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="ScoreFilter takes DocumentFilter objects"):
        ScoreFilter(wrong)


def test_an_empty_list_of_filters_is_refused() -> None:
    with pytest.raises(ValueError, match="the list of filters is empty"):
        ScoreFilter([])


def test_a_filter_that_fails_names_the_document() -> None:
    class Picky(Length):
        def score_document(self, text: str) -> int:
            return int(text)

    with pytest.raises(StageError) as caught:
        run_stage(ScoreFilter([Length(), Picky()]), make_batch(["1", "much too long", "two", "3"]))
    message = str(caught.value)
    assert message.startswith("stage 'Picky': Picky failed on document 2 of the batch ('two'")
    assert "ValueError: invalid literal for int()" in message


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"text": [None]}),
        pd.DataFrame({"text": pd.Series([], dtype=object)}),
        pd.DataFrame({"text": [float("nan")]}, dtype=object),
    ],
    ids=["only nulls", "no documents", "only NaN"],
)
def test_a_pandas_batch_without_any_text_is_a_batch(frame: pd.DataFrame) -> None:
    [kept] = run_stage(ScoreFilter(WordCountFilter(min_words=0)), DocumentBatch("d", frame))
    assert kept.num_items == len(frame)


def test_a_column_that_is_not_text_is_named() -> None:
    with pytest.raises(StageError, match="column 'text' holds int64, not text"):
        run_stage(ScoreFilter(TWO_WORDS), DocumentBatch("d", pa.table({"text": [1, 2]})))


def test_a_score_does_not_depend_on_neighbouring_documents() -> None:
    # A column with a value that is not text is stored as JSON; the documents must not be scored as JSON.
    lines = [json.dumps({"text": text}) + "\n" for text in ('one "two"\nthree', 5)]
    alone = parse_rows(lines[0].encode()).to_table()
    beside = parse_rows("".join(lines).encode()).to_table()
    stage = ScoreFilter([WordCountFilter(min_words=0), Length(1000)], score_field=["words", "length"])
    scores = []
    for table in (alone, beside):
        [kept] = run_stage(stage, DocumentBatch("d", table))
        scores.append([kept.data[name][0].as_py() for name in ("words", "length")])
    assert scores[0] == [3, 15]
    assert scores[1] == scores[0]


FILTERS: list[DocumentFilter] = [
    WordCountFilter(min_words=1, max_words=4),
    NonAlphaNumericFilter(0.5),
    RepeatedLinesFilter(0.6),
    BoilerPlateStringFilter(),
    Length(12),
]
RULE = st.tuples(st.sampled_from(FILTERS), st.sampled_from([None, "s", "t"]), st.booleans())
DOCUMENTS = st.lists(st.none() | st.text(alphabet="ab #\n", max_size=15), max_size=8)


@settings(deadline=None)
@given(rules=st.lists(RULE, min_size=2, max_size=4), documents=DOCUMENTS)
def test_merged_filters_return_the_same_as_separate_ones(
    rules: list[tuple[DocumentFilter, str | None, bool]], documents: list[str | None]
) -> None:
    batch = make_batch(documents)
    stages: list[ProcessingStage[Any, Any]] = [
        ScoreFilter(f, score_field=field, invert=flip) for f, field, flip in rules
    ]
    [pool] = fuse(stages)
    assert len(pool.steps) == 1
    separate = apart(stages, batch).to_pyarrow()
    together = run(stages, batch).to_pyarrow()
    in_one_list = apart(
        [ScoreFilter([f for f, _, _ in rules], score_field=[s for _, s, _ in rules], invert=[i for _, _, i in rules])],
        batch,
    ).to_pyarrow()
    assert together.to_pylist() == separate.to_pylist() == in_one_list.to_pylist()
    assert sorted(together.column_names) == sorted(separate.column_names)


def test_a_filter_can_read_a_column_written_by_the_previous_one() -> None:
    class Stripped(DocumentFilter):
        """Its score is a text, which the next filter scores."""

        def score_document(self, text: str) -> str:
            return text.strip("# ")

        def keep_document(self, score: str) -> bool:
            return True

    stages: list[ProcessingStage[Any, Any]] = [
        ScoreFilter(Stripped(), score_field="clean"),
        ScoreFilter(Length(3), text_field="clean"),
    ]
    batch = make_batch(["## abc ##", "## abcd ##"])
    assert apart(stages, batch).to_pyarrow()["clean"].to_pylist() == ["abc"]
    assert run(stages, batch).to_pyarrow()["clean"].to_pylist() == ["abc"]


def test_a_subclass_keeps_its_behaviour_next_to_other_filters() -> None:
    class Marking(ScoreFilter):
        def process(self, task: DocumentBatch) -> DocumentBatch:
            table = super().process(task).to_pyarrow()
            return DocumentBatch(task.dataset_name, table.append_column("mark", pa.array(["seen"] * table.num_rows)))

    batch = make_batch(["a b", "a"])
    for stages in ([Marking(TWO_WORDS), ScoreFilter(Length())], [ScoreFilter(Length()), Marking(TWO_WORDS)]):
        assert run(list(stages), batch).to_pyarrow()["mark"].to_pylist() == ["seen"]


def test_each_filter_of_a_list_has_counts_of_its_own() -> None:
    executor = InlineExecutor(show_progress=False)
    stage = ScoreFilter([TWO_WORDS, Length(3)])
    Pipeline("p", stages=[stage]).run(executor, [make_batch(["a", "a b", "a b c"]), make_batch(["b"])])
    assert executor.last_summary is not None
    counts = [(c.stage, c.tasks, c.items_in, c.items_out, c.dropped) for c in executor.last_summary.counters]
    assert counts == [("word_count", 2, 4, 2, 2), ("Length", 2, 2, 1, 1)]


def test_a_ledger_has_all_scan_scores_and_the_scores_of_documents_that_reached_python_filters() -> None:
    rules = [TWO_WORDS, Length(3), RepeatedLinesFilter(0.6)]
    kept, [words, length, lines] = with_ledger(
        ScoreFilter(rules), make_batch(["a", "a b", "a b c", "b b\nb b", "a\na"])
    )
    assert kept.data["text"].to_pylist() == ["a b"]
    assert kept.source_rows is not None
    assert kept.source_rows.tolist() == [10]
    assert (words.name, words.parameters) == ("word_count", {"min_words": 2, "max_words": 100000, "lang": "en"})
    assert words.rows.tolist() == [0, 10, 20, 30, 40]
    assert words.scores is not None
    assert words.scores.tolist() == [1, 2, 3, 4, 2]
    assert words.kept.tolist() == [False, True, True, True, True]
    assert length.rows.tolist() == [10, 20, 30, 40], "a filter in plain Python sees only the remaining documents"
    assert length.kept.tolist() == [True, False, False, True]
    assert lines.rows.tolist() == [0, 10, 20, 30, 40], "a scan scores all, so that other bounds can be tried later"
    assert lines.kept.tolist() == [True, True, True, False, False]


def test_a_ledger_keeps_only_numeric_scores() -> None:
    class Label(Length):
        def score_document(self, text: str) -> Any:
            return "long" if len(text) > 1 else "short"

        def keep_document(self, score: Any) -> bool:
            return bool(score == "long")

    _, [verdicts] = with_ledger(ScoreFilter(Label(), invert=True), make_batch(["a", "ab"]))
    assert verdicts.scores is None
    assert verdicts.kept.tolist() == [True, False]
    assert verdicts.parameters == {"limit": 5}


def test_nothing_is_recorded_without_a_ledger_or_without_source_rows() -> None:
    stage = ScoreFilter(TWO_WORDS)
    stage.process(make_batch(["a"]))
    assert stage.take_verdicts() == []
    stage._keeps_ledger = True
    stage.process(make_batch(["a"]))
    assert stage.take_verdicts() == []


def test_a_fully_filtered_batch_is_a_batch_of_no_documents() -> None:
    [kept] = run_stage(ScoreFilter([TWO_WORDS, RepeatedLinesFilter()], score_field=["words", None]), make_batch(["a"]))
    assert kept.num_items == 0
    assert kept.data.column_names == ["id", "text", "words"]


@pytest.mark.parametrize("score_all", [False, True])
def test_the_order_of_filters_does_not_change_what_is_kept(score_all: bool) -> None:
    rules = [
        TWO_WORDS,
        Length(12),
        RepeatedLinesFilter(0.6),
        RepeatingDuplicateNGramsFilter(n=2),
        NonAlphaNumericFilter(0.5),
    ]
    documents = ["a b", "a", "to be to be to be", "##### ## # #", None, "a b\na b\na b", "one two"]
    outcomes = set()
    for order in (rules, rules[::-1], rules[2:] + rules[:2]):
        stage = ScoreFilter(order)
        stage._keeps_ledger = score_all
        outcomes.add(tuple(stage.process(make_batch(documents)).to_pyarrow()["text"].to_pylist()))
    assert outcomes == {("a b", "one two")}


def test_scores_without_verdicts() -> None:
    stage = Score(
        [TWO_WORDS, len, Length()], ["words", "characters", "title_length"], text_field=["text", "text", "title"]
    )
    assert stage.inputs() == (["data"], ["text", "title"])
    assert stage.outputs() == (["data"], ["words", "characters", "title_length"])
    [scored] = run_stage(stage, make_batch(["a b", None], title=["x", "a title"]))
    assert scored.data.drop_columns(["id", "text", "title"]).to_pylist() == [
        {"words": 2, "characters": 3, "title_length": 1},
        {"words": 0, "characters": 0, "title_length": 7},
    ]


def test_a_score_and_filters_around_it_share_one_pass() -> None:
    stages: list[ProcessingStage[Any, Any]] = [
        ScoreFilter(TWO_WORDS),
        Score(RepeatedLinesFilter(), "lines"),
        ScoreFilter(Length(5)),
    ]
    [pool] = fuse(stages)
    assert [step.name for step in pool.steps] == ["word_count + repeated_lines + Length"]
    assert [part.name for step in pool.steps for part in step.parts()] == ["word_count", "repeated_lines", "Length"]
    result = run(stages, make_batch(["a", "a b", "a b c d"])).to_pyarrow()
    assert result.drop_columns(["id"]).to_pylist() == [{"text": "a b", "lines": 1.0}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([TWO_WORDS, len], "score"), "2 scores cannot all go into 'score'"),
        (([TWO_WORDS, len], ["score"]), "score_field has 1 entries for 2 filters"),
        ((TWO_WORDS, None), "score_field names the column of each score"),
        (([], "score"), "the list of filters is empty"),
    ],
)
def test_scores_need_a_column_each(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Score(*arguments)


def test_a_filter_can_score_all_documents_at_once() -> None:
    shown: list[int] = []

    class Together(Length):
        def score_documents(self, texts: Sequence[str]) -> list[int]:
            shown.append(len(texts))
            return [len(text) for text in texts]

    class Overridden(Together):
        def score_document(self, text: str) -> int:
            return 1

    batch = make_batch(["a", "a b", "a b c d"])
    [kept] = run_stage(ScoreFilter([TWO_WORDS, Together(3)], score_field=[None, "length"]), batch)
    assert kept.data["length"].to_pylist() == [3]
    assert shown == [2], "only those that are left"
    [kept] = run_stage(ScoreFilter(Overridden(3)), batch)
    assert kept.num_items == 3


def test_the_failing_document_is_named_when_all_are_scored_at_once() -> None:
    class Together(Length):
        def score_document(self, text: str) -> int:
            return int(text)

        def score_documents(self, texts: Sequence[str]) -> list[int]:
            return [int(text) for text in texts]

    with pytest.raises(StageError, match=r"Together failed on document 1 of the batch \('two'"):
        run_stage(ScoreFilter(Together()), make_batch(["1", "two"]))
