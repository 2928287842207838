"""A composite is decomposed before the run; settings are applied by the names of its stages."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock import CompositeStage, DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, Resources
from penstock.core.composite import expand
from penstock.errors import PlanError
from penstock.testing import make_batch


class Append(ProcessingStage[DocumentBatch, DocumentBatch]):
    def __init__(self, word: str) -> None:
        self.word = word
        self.name = f"append_{word}"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return make_batch([f"{text} {self.word}" for text in task.to_pyarrow()["text"].to_pylist()])


class Of(CompositeStage[DocumentBatch, DocumentBatch]):
    name = "of"

    def __init__(self, *stages: ProcessingStage[Any, Any]) -> None:
        self.inner = stages

    def decompose(self) -> Sequence[ProcessingStage[Any, Any]]:
        return self.inner


def run(*stages: ProcessingStage[Any, Any]) -> list[str]:
    [result] = Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False), [make_batch(["x"])])
    return list(result.data["text"].to_pylist())


def test_a_composite_of_one_stage_runs_that_stage() -> None:
    assert run(Of(Append("a"))) == ["x a"]


def test_composites_nest() -> None:
    nested = Of(Append("a"), Of(Of(Append("b")), Append("c")), Append("d"))
    assert [stage.name for stage in expand([nested])] == ["append_a", "append_b", "append_c", "append_d"]
    assert run(nested) == ["x a b c d"]


def test_settings_reach_the_stage_of_that_name_only() -> None:
    composite = Of(Append("a"), Append("b"))
    given = composite.with_({"append_b": {"resources": Resources(cpus=2)}}).with_({"append_b": {"batch_size": 4}})
    first, second = expand([given])
    assert (first.resources.cpus, first.batch_size) == (1, 1)
    assert (second.resources.cpus, second.batch_size) == (2, 4)
    assert composite.inner[1].resources.cpus == 1, "the stages of the user are not changed"
    assert [stage.batch_size for stage in expand([composite])] == [1, 1], "with_ returns a copy of the composite"


def test_settings_for_an_unknown_stage_name_suggest_a_known_one() -> None:
    with pytest.raises(ValueError, match=r"no stage 'apend_a' to change; it has 'append_a'.* Did you mean 'append_a'"):
        expand([Of(Append("a")).with_({"apend_a": {"batch_size": 2}})])


def test_settings_for_an_ambiguous_stage_name_are_refused() -> None:
    with pytest.raises(ValueError, match="has 2 stages 'append_a'"):
        expand([Of(Append("a"), Append("a")).with_({"append_a": {"batch_size": 2}})])


def test_settings_without_a_name_are_refused() -> None:
    with pytest.raises(TypeError, match="stands for the stages 'append_a'; say which one to change"):
        Of(Append("a")).with_(resources=Resources(cpus=2))


def test_wrong_settings_are_reported_as_a_plan_error() -> None:
    pipeline = Pipeline("p", stages=[Of(Append("a")).with_({"b": {"batch_size": 2}})])
    with pytest.raises(PlanError, match="composite 'of' has no stage 'b'"):
        pipeline.run(InlineExecutor(show_progress=False), [make_batch(["x"])])


def test_a_composite_has_the_inputs_of_its_first_and_the_outputs_of_its_last_stage() -> None:
    from penstock.text import ScoreFilter, WordCountFilter

    composite = Of(ScoreFilter(WordCountFilter(), text_field="body"), ScoreFilter(WordCountFilter(), score_field="n"))
    assert (composite.inputs(), composite.outputs()) == ((["data"], ["body"]), (["data"], ["n"]))
    with pytest.raises(RuntimeError, match="does not process"):
        composite.process(make_batch(["x"]))


def test_a_composite_without_a_name_is_named_after_its_class() -> None:
    class Cleaning(CompositeStage[DocumentBatch, DocumentBatch]):
        pass

    assert Cleaning().name == "Cleaning"


def test_an_empty_composite_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match="no stages"):
        run(Of())
