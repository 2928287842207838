"""Every mistake in a pipeline is found before anything runs, and all of them are in one error."""

import pickle
from typing import Any

import pytest

from penstock import DocumentBatch, EmptyTask, FileGroupTask, ProcessingStage, Resources, Task
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.stage import Spec
from penstock.errors import PlanError
from penstock.plan.check import check
from penstock.plan.planner import make_plan
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlReaderStage, JsonlWriter, ParquetWriter, ScoreFilter, WordCountFilter
from penstock.text.io.partitioning import FilePartitioningStage

LAPTOP = Cluster((Node("laptop", cpus=4, memory_gb=16),))
MIXED = Cluster((Node("small", cpus=2, memory_gb=8), Node("gpu", cpus=8, memory_gb=64, gpus=(Gpu(24), Gpu(80)))))
Stage = ProcessingStage[Any, Any]


class Work(ProcessingStage[DocumentBatch, DocumentBatch]):
    name = "work"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task

    def outputs(self) -> Spec:
        return ["data"], []


class Needs(Work):
    name = "needs"

    def __init__(self, *columns: str, adds: tuple[str, ...] = ()) -> None:
        self.columns, self.adds = list(columns), list(adds)

    def inputs(self) -> Spec:
        return ["data"], self.columns

    def outputs(self) -> Spec:
        return ["data"], self.adds


def mistakes(*stages: Stage, cluster: Cluster = LAPTOP, **options: Any) -> list[str]:
    options.setdefault("initial_tasks", [make_batch(["a"], body=["b"])])
    return check(stages, cluster, **options)


def test_a_correct_pipeline_has_no_mistakes() -> None:
    assert mistakes(Work(), Needs("text", adds=("n",)), Needs("n", "body"), JsonlWriter("out")) == []
    stages: list[Stage] = [FilePartitioningStage("in"), JsonlReaderStage(), Needs("whatever"), JsonlWriter("out")]
    assert mistakes(*stages, initial_tasks=None) == []


@pytest.mark.parametrize(
    ("stage", "mistake"),
    [
        (type("Lazy", (ProcessingStage,), {})(), "stage 'Lazy' (Lazy) defines neither process nor process_batch"),
        (Work().with_(batch_size=0), "stage 'work' has batch_size=0; it is a whole number of tasks, 1 or more"),
        (Work().with_(batch_size=1.5), "has batch_size=1.5"),  # type: ignore[arg-type]
        (Work().with_(batch_size=True), "has batch_size=True"),
        (Work().with_(batch_size="4"), "has batch_size='4'"),  # type: ignore[arg-type]
        (Work().with_(name=""), "a Work has the name ''; a name is a non-empty string"),
        (Work().with_(num_workers=0), "stage 'work' asks for 0 workers; ask for at least 1"),
        (Work().with_(num_workers="4"), "stage 'work' asks for '4' workers"),  # type: ignore[arg-type]
        (Work().with_(resources={"cpus": 2}), "has resources={'cpus': 2}; write Resources("),  # type: ignore[arg-type]
        (Work().with_(resources=Resources(cpus=8)), "needs 8 CPUs, which fits nowhere: node 'laptop' has 4 CPUs"),
        (
            Work().with_(resources=Resources(memory_gb=20)),
            "20 GB memory, which fits nowhere: node 'laptop' has 16.0 GB",
        ),
        (Work().with_(resources=Resources(gpus=0.5)), "0.5 GPU, which fits nowhere: node 'laptop' has no GPU"),
        (
            Needs("txt"),
            "stage 'needs' needs column 'txt', but the columns known before it are 'body', 'id', 'text'. Did you mean 'text'?",
        ),
    ],
)
def test_each_mistake_names_the_stage_and_says_what_to_do(stage: Stage, mistake: str) -> None:
    [found] = mistakes(stage)
    assert mistake in found


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (Resources(gpus=2), None),
        (Resources(gpu_memory_gb=80), None),
        (Resources(cpus=8, memory_gb=64, gpus=0.1), None),
        (Resources(gpus=3), "node 'small' has no GPU; node 'gpu' has 2 GPUs"),
        (Resources(gpu_memory_gb=81), "node 'small' has no GPU; the largest GPU of node 'gpu' has 80 GB"),
        (Resources(cpus=9), "node 'small' has 2 CPUs; node 'gpu' has 8 CPUs"),
    ],
)
def test_one_worker_has_to_fit_on_one_node(need: Resources, reason: str | None) -> None:
    found = mistakes(Work().with_(resources=need), cluster=MIXED)
    assert found == ([f"one worker of stage 'work' needs {need}, which fits nowhere: {reason}"] if reason else [])


def test_thirty_small_stages_fit_on_one_core() -> None:
    one_core = Cluster((Node("tiny", cpus=1, memory_gb=1),))
    assert mistakes(*(Work() for _ in range(30)), cluster=one_core) == []


def test_a_pipeline_has_one_source_and_one_sink() -> None:
    class Source(Work):
        is_source_stage = True

    class Sink(Work):
        is_sink_stage = True

    assert mistakes(Source(), Work(), Sink()) == []
    assert mistakes(Source(), Source().with_(name="other"), Sink(), Sink()) == [
        "2 stages say they are the source: work, other; a pipeline has one",
        "2 stages say they are the sink: work, work; a pipeline has one",
    ]


def test_a_stage_that_cannot_be_resumed_forbids_a_checkpoint() -> None:
    class Once(Work):
        is_resumable = False

    assert mistakes(Once()) == []
    [found] = mistakes(Once(), with_checkpoint=True)
    assert "stage 'work' cannot be resumed (is_resumable=False); run without checkpoint_path" in found


def test_neighbouring_stages_must_have_matching_task_types() -> None:
    assert mistakes(JsonlWriter("out"), Work()) == [
        "stage 'work' takes DocumentBatch, but 'jsonl_writer' before it emits FileGroupTask"
    ]


def test_the_first_stage_must_accept_the_initial_tasks() -> None:
    [nothing_before] = mistakes(Work(), initial_tasks=None)
    assert (
        "takes DocumentBatch, but nothing comes before it; begin with a reader, or pass initial_tasks" in nothing_before
    )
    [wrong_kind] = mistakes(Work(), initial_tasks=[FileGroupTask("d", ["a"])])
    assert wrong_kind == "the first stage 'work' takes DocumentBatch, but initial_tasks are FileGroupTask"


def test_a_general_hint_fits_every_task() -> None:
    class Anything(ProcessingStage[Task[Any], Task[Any]]):
        def process(self, task: Task[Any]) -> Task[Any]:
            return task

    class Untyped(ProcessingStage):  # type: ignore[type-arg]
        def process(self, task: Any) -> Any:
            return task

    stages: list[Stage] = [ListSource([]), Anything(), Work(), Untyped(), JsonlWriter("out")]
    assert mistakes(*stages, initial_tasks=None) == []
    assert mistakes(Anything(), initial_tasks=[EmptyTask()]) == []


def test_columns_are_followed_through_the_pipeline() -> None:
    read_text = JsonlReaderStage(fields=["text"])
    scored = ScoreFilter(WordCountFilter(), score_field="words")
    source = FilePartitioningStage("in")
    assert mistakes(source, read_text, scored, Needs("words"), initial_tasks=None) == []
    [found] = mistakes(source, read_text, Needs("words"), scored, initial_tasks=None)
    assert "stage 'needs' needs column 'words', but the columns known before it are 'text'." in found
    assert mistakes(source, JsonlReaderStage(), Needs("words"), initial_tasks=None) == [], "files may have any column"


def test_only_columns_that_all_initial_batches_have_are_known() -> None:
    [found] = mistakes(Needs("body"), initial_tasks=[make_batch(["a"], body=["b"]), make_batch(["a"])])
    assert "needs column 'body'" in found


def test_a_stage_that_declares_no_outputs_may_add_any_column() -> None:
    class Silent(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> DocumentBatch:
            return make_batch(["a"], clean=["b"])

    assert mistakes(Silent(), Needs("clean")) == []


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("data", "data"),
        ("data/", "data"),
        ("./data", "data"),
        ("data/*.jsonl", "data"),
        ("data/part.jsonl", "data"),
        ("data/raw", "data"),
        ("data", "data/out"),
        ("s3://bucket/data", "s3://bucket/data/"),
    ],
)
def test_an_output_folder_that_overlaps_the_input_is_refused(read: str, written: str) -> None:
    # mode="overwrite" clears the output folder, with everything below it; and a second run would read its own output.
    stages: list[Stage] = [FilePartitioningStage(read), JsonlReaderStage(), ParquetWriter(written)]
    [found] = mistakes(*stages, initial_tasks=None)
    assert f"stage 'parquet_writer' writes into {written}, which 'file_partitioning' reads from" in found
    assert "a folder of its own" in found


@pytest.mark.parametrize(("read", "written"), [("data", "data2"), ("data/in", "data/out"), ("s3://a/x", "s3://b/x")])
def test_neighbouring_folders_do_not_overlap(read: str, written: str) -> None:
    stages: list[Stage] = [FilePartitioningStage(read), JsonlReaderStage(), ParquetWriter(written)]
    assert mistakes(*stages, initial_tasks=None) == []


def test_all_mistakes_come_in_one_error() -> None:
    stages: list[Stage] = [
        Needs("txt").with_(name="first", batch_size=0),
        JsonlWriter("out"),
        Work().with_(name="last", resources=Resources(cpus=99), num_workers=-1),
    ]
    with pytest.raises(PlanError) as caught:
        make_plan("bad", stages, LAPTOP, initial_tasks=[make_batch(["a"])], known_mistakes=["the input is gone"])
    found = caught.value.mistakes
    for mistake in (
        "input is gone",
        "batch_size=0",
        "99 CPUs",
        "-1 workers",
        "column 'txt'",
        "'last' takes DocumentBatch",
    ):
        assert sum(mistake in one for one in found) == 1, mistake
    assert len(found) == 6
    assert str(caught.value).startswith("pipeline 'bad' cannot run, 6 mistakes:\n  - the input is gone\n  - ")
    assert pickle.loads(pickle.dumps(caught.value)).mistakes == found
