"""The id of a task follows from its lineage, not from randomness, time or the order of arrival."""

from typing import Any

import pytest

from penstock import DocumentBatch, EmptyTask, FileGroupTask, InlineExecutor, Pipeline, ProcessingStage, Task
from penstock.core.lineage import adopt_jointly, adopt_many, root_tasks
from penstock.testing import ListSource, make_batch


def copy_of(task: DocumentBatch) -> DocumentBatch:
    return DocumentBatch(task.dataset_name, task.data)


class Same(ProcessingStage[DocumentBatch, DocumentBatch]):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        return copy_of(task)


class Split(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Return one task per document; an empty list for an empty batch."""

    def process(self, task: DocumentBatch) -> list[DocumentBatch]:
        table = task.to_pyarrow()
        return [DocumentBatch(task.dataset_name, table.slice(row, 1)) for row in range(table.num_rows)]


class Pair(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Join up to two tasks."""

    batch_size = 2

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        texts = [text for task in tasks for text in task.to_pyarrow()["text"].to_pylist()]
        return [make_batch(texts)]


def run(*stages: ProcessingStage[Any, Any], initial_tasks: list[Task[Any]] | None = None) -> list[Task[Any]]:
    return Pipeline("ids", stages=stages).run(InlineExecutor(show_progress=False), initial_tasks)


def ids(tasks: list[Task[Any]]) -> list[str]:
    return [task.task_id for task in tasks]


def batches(*texts: str) -> list[Task[Any]]:
    return [make_batch([text]) for text in texts]


def test_one_output_for_one_input_keeps_the_id() -> None:
    assert ids(run(Same(), Same(), initial_tasks=batches("a", "b"))) == ["0_0", "0_1"]


def test_a_list_appends_the_position_also_if_it_has_one_entry() -> None:
    tasks: list[Task[Any]] = [make_batch(["a", "b"]), make_batch(["c"])]
    assert ids(run(Split(), initial_tasks=tasks)) == ["0_0_0", "0_0_1", "0_1_0"]


def test_a_source_names_files_after_their_content() -> None:
    one, two, new = (FileGroupTask("d", [f"{name}.jsonl"]) for name in ("one", "two", "new"))
    before = dict(zip("12", ids(run(ListSource([one, two]))), strict=True))
    after = dict(zip("n12", ids(run(ListSource([new, one, two]))), strict=True))
    assert (after["1"], after["2"]) == (before["1"], before["2"])
    assert len(set(after.values())) == 3


def test_the_same_files_listed_twice_are_two_tasks() -> None:
    twice = [FileGroupTask("d", ["same.jsonl"]), FileGroupTask("d", ["same.jsonl"])]
    assert len(set(ids(run(ListSource(twice))))) == 2


def test_the_order_of_files_within_a_task_does_not_matter() -> None:
    assert ids(run(ListSource([FileGroupTask("d", ["b", "a"])]))) == ids(
        run(ListSource([FileGroupTask("d", ["a", "b"])]))
    )


def test_a_task_made_from_several_is_named_after_all_of_them() -> None:
    joined = run(Pair(), initial_tasks=batches("a", "b", "c", "d"))
    again = run(Pair(), initial_tasks=batches("a", "b", "c", "d"))
    assert ids(joined) == ids(again)
    assert len(set(ids(joined))) == 2
    assert not set(ids(joined)) & {"0_0", "0_1", "0_2", "0_3"}


def test_a_joint_name_does_not_depend_on_the_order_in_which_the_parents_arrived() -> None:
    first, second = root_tasks(batches("a", "b"))
    children = [make_batch(["one"]), make_batch(["other"])]
    adopt_jointly([first, second], children[:1])
    adopt_jointly([second, first], children[1:])
    assert children[0].task_id == children[1].task_id


def test_joint_children_come_from_all_the_sources() -> None:
    parents = root_tasks(batches("a", "b"))
    children: list[Task[Any]] = [make_batch(["x"]), make_batch(["y"]), make_batch(["z"])]
    adopt_jointly(parents, children)
    assert len(set(ids(children))) == 3
    assert all(set(child._sources) == {"0_0", "0_1"} for child in children)


def test_a_task_that_returns_itself_beside_another_leaves_every_id_unique() -> None:
    # A parent that is also its own first child must keep its id until its siblings have theirs: two tasks with the same
    # id would write the same file.
    class KeepAndCopy(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> list[DocumentBatch]:
            return [task, copy_of(task)]

    class SplitTheFirst(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> DocumentBatch | list[DocumentBatch]:
            return [copy_of(task), copy_of(task)] if task.task_id.endswith("_0_0") else task

    assert ids(run(KeepAndCopy(), initial_tasks=batches("a"))) == ["0_0_0", "0_0_1"]
    assert ids(run(KeepAndCopy(), SplitTheFirst(), initial_tasks=batches("a"))) == ["0_0_0_0", "0_0_0_1", "0_0_1"]


def test_a_batch_stage_may_return_some_of_its_inputs_which_keep_their_ids() -> None:
    class EverySecond(ProcessingStage[DocumentBatch, DocumentBatch]):
        batch_size = 4

        def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
            return tasks[::2]

    assert ids(run(EverySecond(), initial_tasks=batches("a", "b", "c", "d"))) == ["0_0", "0_2"]


def test_a_batch_stage_may_drop_or_multiply_single_tasks_by_position() -> None:
    class DropKeepSplit(ProcessingStage[DocumentBatch, DocumentBatch]):
        batch_size = 3

        def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch | list[DocumentBatch] | None]:
            return [None, copy_of(tasks[1]), [copy_of(tasks[2]), copy_of(tasks[2])]]

    assert ids(run(DropKeepSplit(), initial_tasks=batches("a", "b", "c"))) == ["0_1", "0_2_0", "0_2_1"]


def test_running_twice_gives_the_same_ids() -> None:
    pipeline = Pipeline("twice", stages=[ListSource(batches("a b", "c", "d e f")), Split(), Pair(), Same()])
    executor = InlineExecutor(show_progress=False)
    assert ids(pipeline.run(executor)) == ids(pipeline.run(executor))


def test_the_users_own_tasks_are_not_changed() -> None:
    class Label(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> DocumentBatch:
            task._metadata["label"] = "seen"
            return task

    given = make_batch(["a"])
    [result] = run(Label(), initial_tasks=[given])
    assert (given.task_id, given._metadata, given._stage_perf) == ("", {}, [])
    assert (result.task_id, result._metadata) == ("0_0", {"label": "seen"})


def test_children_inherit_metadata_that_the_stage_does_not_set() -> None:
    [parent] = root_tasks([FileGroupTask("crawl", ["a"], _metadata={"lang": "en", "depth": 1})])
    child, silent = FileGroupTask("", ["b"], _metadata={"depth": 2}), FileGroupTask("own", ["c"])
    adopt_many(parent, [child, silent])
    assert (child.dataset_name, child._metadata) == ("crawl", {"lang": "en", "depth": 2})
    assert (silent.dataset_name, silent._metadata) == ("own", {"lang": "en", "depth": 1})


def test_siblings_do_not_count_each_others_stages() -> None:
    class SplitAndShare(ProcessingStage[DocumentBatch, DocumentBatch]):
        """Pass its own lists to every child, as many scripts do."""

        name = "Split"

        def process(self, task: DocumentBatch) -> list[DocumentBatch]:
            return [DocumentBatch("d", task.data, task._stage_perf, task._metadata) for _ in range(2)]

    results = run(Same(), SplitAndShare(), Same(), initial_tasks=[make_batch(["a", "b"])])
    assert [[record.stage_name for record in task._stage_perf] for task in results] == [["Same", "Split", "Same"]] * 2


def test_a_task_with_many_parents_has_one_record_per_stage() -> None:
    class Regroup(ProcessingStage[DocumentBatch, DocumentBatch]):
        batch_size = 8

        def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
            return [DocumentBatch("d", task.data) for task in tasks[1:]]

    results = run(Same(), Regroup(), Regroup(), initial_tasks=[make_batch(["a"]) for _ in range(8)])
    assert [record.stage_name for record in results[0]._stage_perf] == ["Same", "Regroup", "Regroup"]


def test_without_initial_tasks_a_run_begins_with_one_empty_task() -> None:
    [root] = root_tasks(None)
    assert (type(root), root.task_id, root.num_items) == (EmptyTask, "0", 0)


@pytest.mark.parametrize("wrong", ["a.jsonl", [1], None])
def test_a_file_group_holds_a_list_of_paths(wrong: Any) -> None:
    with pytest.raises(TypeError, match="list of path strings"):
        FileGroupTask("d", wrong)
