"""The contract of a stage, and the mistakes that are reported when the class is defined."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import DocumentBatch, FileGroupTask, ProcessingStage, Resources, Task
from penstock.core.stage import Spec, WorkerLimits
from penstock.testing import make_batch, run_stage


class Plain(ProcessingStage[DocumentBatch, DocumentBatch]):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


class Fixed(Plain):
    name = "fixed"

    def num_workers(self) -> int:
        return 3

    max_worker_growth_gb = 2.0


def test_a_stage_is_named_after_its_class_by_default() -> None:
    assert (Plain().name, Fixed().name) == ("Plain", "fixed")
    assert (Plain().resources, Plain().batch_size, Plain().num_workers()) == (Resources(cpus=1), 1, None)


def test_with_returns_a_changed_copy_and_leaves_the_stage_alone() -> None:
    stage = Plain()
    changed = stage.with_(
        name="other", resources=Resources(cpus=4), batch_size=8, runtime_env={"pip": ["x"]}, num_workers=2
    )
    assert type(changed) is Plain
    assert (changed.name, changed.resources.cpus, changed.batch_size) == ("other", 4, 8)
    assert (changed.runtime_env, changed.num_workers()) == ({"pip": ["x"]}, 2)
    assert (stage.name, stage.resources.cpus, stage.batch_size) == ("Plain", 1, 1)
    assert (stage.runtime_env, stage.num_workers()) == (None, None)


def test_with_copies_deeply() -> None:
    class Listing(Plain):
        def __init__(self) -> None:
            self.words = ["a"]

    stage = Listing()
    stage.with_(name="other").words.append("b")
    assert stage.words == ["a"]


@pytest.mark.parametrize("count", [5, None])
def test_the_number_of_workers_given_in_with_wins_over_the_method(count: int | None) -> None:
    changed = Fixed().with_(num_workers=count, num_workers_per_node=count)
    assert (changed.num_workers(), changed.num_workers_per_node()) == (count, count)
    assert pickle.loads(pickle.dumps(changed)).num_workers() == count
    assert copy.deepcopy(changed).with_(name="x").num_workers() == count
    assert Fixed().with_(name="x").num_workers() == 3


def test_worker_limits_of_with_are_added_to_those_of_the_class() -> None:
    changed = Fixed().with_(max_worker_lifetime_s=300).with_(max_tasks_per_worker=2)
    assert changed.worker_limits() == WorkerLimits(300, 2, 2.0)
    assert Fixed().worker_limits() == WorkerLimits(max_worker_growth_gb=2.0)
    assert Fixed().with_(max_worker_growth_gb=None).worker_limits() == WorkerLimits()
    assert pickle.loads(pickle.dumps(changed)).worker_limits() == changed.worker_limits()


def test_with_suggests_a_setting_for_an_unknown_one() -> None:
    with pytest.raises(TypeError, match=r"no setting 'max_task_per_worker'.* Did you mean 'max_tasks_per_worker'"):
        Plain().with_(max_task_per_worker=4)


@pytest.mark.parametrize("attribute", ["name", "resources", "batch_size", "runtime_env"])
def test_a_setting_written_as_a_property_is_refused(attribute: str) -> None:
    with pytest.raises(TypeError, match=f"Wrong.{attribute} is a property"):
        type("Wrong", (ProcessingStage,), {attribute: property(lambda self: None)})


@pytest.mark.parametrize("method", ["num_workers", "num_workers_per_node"])
def test_a_number_of_workers_written_as_an_attribute_is_refused(method: str) -> None:
    with pytest.raises(TypeError, match=f"must be a method: def {method}"):
        type("Wrong", (ProcessingStage,), {method: 4})
    with pytest.raises(TypeError, match=f"must be a method: def {method}"):
        type("Wrong", (ProcessingStage,), {"__annotations__": {method: int}})


def test_a_stage_may_be_a_dataclass() -> None:
    @dataclass
    class Prefix(ProcessingStage[DocumentBatch, DocumentBatch]):
        prefix: str
        name: str = "prefix"
        batch_size: int = 2

        def process(self, task: DocumentBatch) -> DocumentBatch:
            return make_batch([self.prefix + text for text in task.to_pyarrow()["text"].to_pylist()])

    stage = Prefix("> ").with_(name="quote")
    assert (stage.name, stage.batch_size, stage.get_config()["prefix"]) == ("quote", 2, "> ")
    [result] = run_stage(stage, make_batch(["a"]))
    assert result.data["text"].to_pylist() == ["> a"]


def test_the_inputs_of_the_most_specific_task_class_are_used() -> None:
    class Special(DocumentBatch):
        pass

    class Choosy(ProcessingStage[Task[Any], Task[Any]]):
        def inputs(self) -> dict[type[Task[Any]], Spec]:
            return {Task: (["data"], []), DocumentBatch: (["data"], ["text"]), FileGroupTask: (["reader_config"], [])}

    stage = Choosy()
    without_text = pa_batch = make_batch(["a"], text_field="body")
    assert stage.missing_from(without_text) == ["text"]
    assert stage.missing_from(Special("d", pa_batch.data)) == ["text"], "a subclass has the inputs of its base class"
    assert stage.validate_input(make_batch(["a"]))
    assert stage.input_spec_for_task(FileGroupTask) == (["reader_config"], [])
    assert stage.input_spec_for_task(Task) == (["data"], [])


def test_missing_attributes_and_columns_are_listed() -> None:
    class Needy(Plain):
        def inputs(self) -> Spec:
            return ["data", "shape"], ["text", "url"]

    assert Needy().missing_from(make_batch(["a"])) == ["shape", "url"]


def test_a_stage_without_process_raises_an_error_that_names_it() -> None:
    with pytest.raises(NotImplementedError, match=r"stage 'Empty' \(Empty\) defines no process"):
        type("Empty", (ProcessingStage,), {})().process(make_batch(["a"]))


def test_fan_out_is_read_from_the_return_annotation() -> None:
    class Many(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> list[DocumentBatch]:
            return [task]

    assert (Plain().is_fanout_stage(), Many().is_fanout_stage()) == (False, True)


def test_task_types_are_read_from_the_generic_base_class() -> None:
    class Child(Fixed):
        pass

    assert Child().task_types() == (DocumentBatch, DocumentBatch)
