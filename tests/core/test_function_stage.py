"""A function of one task is a stage."""

import cloudpickle
import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, Resources, processing_stage
from penstock.core.function_stage import FunctionStage
from penstock.errors import PlanError
from penstock.testing import make_batch, run_stage


@processing_stage(name="upper", resources={"cpus": 0.5}, batch_size=4)
def upper(task: DocumentBatch) -> DocumentBatch:
    """Shout."""
    return make_batch([text.upper() for text in task.to_pyarrow()["text"].to_pylist()])


def texts(stage: FunctionStage, *words: str) -> list[list[str]]:
    return [task.data["text"].to_pylist() for task in run_stage(stage, make_batch(words))]


def test_a_function_may_return_a_task() -> None:
    assert texts(upper, "a", "b") == [["A", "B"]]


def test_a_function_may_return_a_list() -> None:
    @processing_stage(name="twice")
    def twice(task: DocumentBatch) -> list[DocumentBatch]:
        return [make_batch(["1"]), make_batch(["2"])]

    assert texts(twice, "a") == [["1"], ["2"]]
    assert twice.is_fanout_stage()
    assert not upper.is_fanout_stage()


def test_a_function_may_return_none_to_drop_a_task() -> None:
    @processing_stage(name="drop")
    def drop(task: DocumentBatch) -> DocumentBatch | None:
        return None

    assert texts(drop, "a") == []


def test_a_decorated_function_is_a_stage_and_can_still_be_called() -> None:
    assert (upper.name, upper.resources, upper.batch_size) == ("upper", Resources(cpus=0.5), 4)
    assert (upper.__doc__, upper.__name__) == ("Shout.", "upper")  # type: ignore[attr-defined]
    called = upper(make_batch(["a"]))
    assert isinstance(called, DocumentBatch)
    assert called.data["text"].to_pylist() == ["A"]


def test_a_decorated_function_can_be_pickled() -> None:
    assert texts(cloudpickle.loads(cloudpickle.dumps(upper)), "a") == [["A"]]


def test_a_function_stage_can_be_changed_like_any_other() -> None:
    other = upper.with_(name="other", batch_size=1)
    assert (other.name, other.batch_size, upper.name, upper.batch_size) == ("other", 1, "upper", 4)
    assert texts(other, "a") == [["A"]]


def test_a_function_takes_exactly_one_parameter() -> None:
    with pytest.raises(ValueError, match=r"exactly one parameter, the task; two takes 2: \(task, more\)"):

        @processing_stage(name="two")  # type: ignore[arg-type]
        def two(task: DocumentBatch, more: int) -> DocumentBatch:
            return task

    with pytest.raises(ValueError, match="none takes 0"):

        @processing_stage(name="none")  # type: ignore[arg-type]
        def none() -> None:
            return None


def test_the_annotations_of_a_function_are_checked_against_its_neighbours() -> None:
    with pytest.raises(PlanError, match="'upper' takes DocumentBatch, but nothing comes before it"):
        Pipeline("p", stages=[upper]).run(InlineExecutor(show_progress=False))
