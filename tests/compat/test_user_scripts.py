"""Run example scripts for ``nemo_curator`` unchanged; each test supplies the names and files that its script uses.

A script that needs a capability that Penstock does not have yet is marked as a strict expected failure that names it.
When the capability is added, the test fails until the mark is removed.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, Resources, processing_stage
from penstock.compat.missing import MissingNameError
from penstock.runtime.machine import find_gpus

SCRIPTS = Path(__file__).parent / "scripts"
Namespace = dict[str, Any]

pytestmark = pytest.mark.usefixtures("compat", "folder")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with the inputs that the scripts use: three files of two documents each."""
    monkeypatch.chdir(tmp_path)
    for name in ("input", "jsonl_input", "parquet_input"):
        (tmp_path / name).mkdir()
        for number in range(3):
            rows = [{"id": f"{number}-{row}", "text": f"Document {row} of file {number}."} for row in range(2)]
            if name == "parquet_input":
                pq.write_table(pa.Table.from_pylist(rows), tmp_path / name / f"{number}.parquet")
            else:
                lines = "".join(json.dumps(row) + "\n" for row in rows)
                (tmp_path / name / f"{number}.jsonl").write_text(lines)
    return tmp_path


def run(script: str, around: Namespace | None = None, instead: dict[str, str] | None = None) -> Namespace:
    """Run a script with predefined names and return the names that it defines."""
    path = SCRIPTS / f"{script}.py"
    source = path.read_text(encoding="utf-8")
    for written, meant in (instead or {}).items():
        source = source.replace(written, meant)
    namespace: Namespace = {**(around or {}), "__name__": "__main__", "__file__": str(path)}
    exec(compile(source, str(path), "exec"), namespace)
    return namespace


def needs(capability: str) -> pytest.MarkDecorator:
    """Expect the script to fail because of a missing capability."""
    return pytest.mark.xfail(strict=True, raises=MissingNameError, reason=f"needs {capability}")


def tasks_of(reader: ProcessingStage[Any, Any]) -> list[list[str]]:
    """Return the ids of the documents in each task that a reader returns."""
    tasks = Pipeline("read", stages=[reader]).run(InlineExecutor(show_progress=False))
    return [task.to_pyarrow()["id"].to_pylist() for task in tasks if isinstance(task, DocumentBatch)]


ALL_IDS = [f"{number}-{row}" for number in range(3) for row in range(2)]


class StageWithAnything(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Stand in for a user's stage whose definition the script does not show."""

    def __init__(self, *_: object) -> None:
        pass


def test_every_script_is_tested() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in SCRIPTS.glob("*.py")} <= tested


# -- scaling up: what each stage needs -------------------------------------------------------------------------


def test_scaling_1() -> None:
    names = run("scaling_1")
    assert names["TokenizerStage"]().resources == Resources(cpus=1)
    assert names["custom_filter_stage"].name == "custom_filter"
    assert str(names["model_stage"]) == "ModelStage(name='ModelStage', 1 CPU, 1 GPU)"


def test_scaling_2() -> None:
    names = run("scaling_2", around=run("scaling_1"))
    assert not names["tokenizer_stage"].resources.requires_gpu
    assert names["model_stage"].resources.gpus == 1


def test_scaling_3() -> None:
    seen: list[Resources] = []

    class ModelStage(ProcessingStage[DocumentBatch, DocumentBatch]):
        def __init__(self, model_path: str) -> None:
            self.model_path = model_path

        def with_(self, *args: Any, **kwargs: Any) -> ModelStage:
            changed = super().with_(*args, **kwargs)
            seen.append(changed.resources)
            return changed

    run("scaling_3", around={"ModelStage": ModelStage, "Resources": Resources})
    assert seen == [Resources(gpus=0.25), Resources(gpu_memory_gb=10)]


# -- resources -------------------------------------------------------------------------------------------------


def test_resources_1() -> None:
    made = run("resources_1")["Resources"]
    assert made is Resources
    with pytest.raises(ValueError, match="give one or the other"):
        made(gpus=1.0, gpu_memory_gb=16.0)


@pytest.mark.ray
def test_resources_2(folder: Path) -> None:
    """Use megabytes instead of gigabytes: Ray refuses more memory than the machine has."""
    ray = pytest.importorskip("ray")
    try:
        run("resources_2", instead={"00_000_000_000": "00_000_000"})
        assert ray.cluster_resources()["object_store_memory"] == 100_000_000
        run("memory_1")
    finally:
        ray.shutdown()
    assert len(list((folder / "output").glob("*.jsonl"))) == 3


def test_resources_3() -> None:
    executor = run("resources_3")["executor"]
    assert run("memory_1")["pipeline"].run(executor)


# -- memory ----------------------------------------------------------------------------------------------------


def test_memory_1(folder: Path) -> None:
    run("memory_1")
    written = sorted((folder / "output").glob("*.jsonl"))
    lines = [line for path in written for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines) == ALL_IDS


def test_memory_2() -> None:
    stages = dict.fromkeys(("MyCpuStage", "MySingleGpuStage", "MyMultiGpuStage"), StageWithAnything)
    pipeline = run("memory_2", around={"pipeline": Pipeline("mine"), **stages})["pipeline"]
    assert [str(stage.resources) for stage in pipeline.stages] == [
        "2 CPUs",
        "4 CPUs, 8 GB of one GPU",
        "8 CPUs, 2 GPUs",
    ]


def test_memory_3(folder: Path) -> None:
    run("memory_3", around=run("memory_1"))
    assert list((folder / "output").glob("*.jsonl"))


def test_memory_4() -> None:
    assert tasks_of(run("memory_4")["reader"]) == [ALL_IDS]


def test_memory_5() -> None:
    assert tasks_of(run("memory_5")["reader"]) == [ALL_IDS]


def test_memory_6(folder: Path) -> None:
    """The script creates the workflow without a file type, so Parquet is expected; the test also runs it."""
    (folder / "input").rename(folder / "jsonl")
    (folder / "parquet_input").rename(folder / "input")
    table = pq.read_table(folder / "input/0.parquet")
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), folder / "input/0.parquet")
    result = run("memory_6")["dedup"].run(executor=InlineExecutor(show_progress=False))
    assert result.get_metadata("num_duplicates") == 1
    assert pq.read_table(folder / "output/ExactDuplicateIds").num_rows == 1


@needs("classifiers")
def test_memory_7() -> None:
    assert isinstance(run("memory_7")["classifier"], ProcessingStage)


# -- GPU -------------------------------------------------------------------------------------------------------


def test_gpu_1() -> None:
    """On a machine without a GPU the line only warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = run("gpu_1")["client"]
    gpus = len(find_gpus())
    assert client.workers == gpus
    assert bool(caught) == (gpus == 0)


def test_gpu_2() -> None:
    operations = {name: adding(name) for name in ("cpu_operation", "gpu_operation", "cpu_operation_2")}
    sequence = run("gpu_2", around=operations)["pipeline"]
    start = DocumentBatch("demo", pa.table({"text": [""]}))
    (made,) = Pipeline("gpu", stages=[sequence]).run(InlineExecutor(show_progress=False), [start])
    assert made.data["text"].to_pylist() == ["cpu_operation gpu_operation cpu_operation_2 "]


def adding(word: str) -> ProcessingStage[Any, Any]:
    """Make a stage that appends a word to every text."""

    @processing_stage(name=word)
    def append(task: DocumentBatch) -> DocumentBatch:
        texts = [text + f"{word} " for text in task.to_pyarrow()["text"].to_pylist()]
        return DocumentBatch(task.dataset_name, pa.table({"text": texts}))

    return append
