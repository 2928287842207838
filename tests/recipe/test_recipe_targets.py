"""A recipe can create stages and their parameters; it cannot call anything else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import fsspec
import pytest

from penstock.compat.names import NAMES
from penstock.core.function_stage import FunctionStage
from penstock.errors import RecipeError
from penstock.recipe.recipe import Recipe, load_recipe
from penstock.recipe.targets import CATALOGUES, MAKEABLE

READER = "stages:\n  - {_target_: JsonlReader, file_paths: in}\n"


def load(folder: Path, text: str) -> Recipe:
    path = folder / "job.yaml"
    path.write_text(text)
    return load_recipe(str(path))


HOSTILE = [
    "os.system",
    "posix.system",
    "subprocess.check_output",
    "subprocess.Popen",
    "builtins.eval",
    "builtins.exec",
    "builtins.type",
    "functools.partial",
    "importlib.import_module",
    "pathlib.Path",
    "penstock.cli.doctor.os.system",
    "penstock.cli.doctor.os",
    "penstock.cli.main.main",
    "penstock.storage.filesystem.fsspec.open",
    "penstock.storage.filesystem.remove_folder",
    "penstock.storage.filesystem.url_to_fs",
    "penstock.recipe.recipe.Path",
    "penstock.text.get_stop_list_dict",
    "penstock.Pipeline",
    "processing_stage",
    "nemo_curator.utils.distributed_utils.get_client",
    ".os.system",
    "os..system",
    "os.system()",
]


@pytest.mark.parametrize("target", HOSTILE)
@pytest.mark.parametrize(
    "template",
    [
        "stages:\n  - {_target_: 'HOSTILE', command: touch ran}\n",
        READER + "  - {_target_: ScoreFilter, filter_obj: {_target_: 'HOSTILE', args: touch ran}}\n",
        READER + "executor: {_target_: 'HOSTILE'}\n",
        "workflow: {_target_: 'HOSTILE'}\n",
    ],
    ids=["stage", "argument", "executor", "workflow"],
)
def test_a_recipe_creates_only_allowed_kinds_of_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=r"may not call|there is no module|is not the name of a class"):
        load(tmp_path, template.replace("HOSTILE", target))
    assert [path.name for path in tmp_path.iterdir()] == ["job.yaml"]


def test_a_refused_target_names_its_place_and_the_allowed_classes(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, "stages:\n  - _target_: os.system\n    command: ls\n")
    assert "job.yaml:2: stages.0._target_: a recipe may not call 'os.system'" in str(caught.value)
    assert "ProcessingStage" in str(caught.value)
    assert "@processing_stage" in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "job.yaml"],
        ["run", "job.yaml"],
        ["run", "other.yaml", "stages.0._target_=os.system", "stages.0.command=touch ran"],
        ["curate", "in", "out", "--recipe", "job.yaml"],
        ["preview", "in", "--recipe", "job.yaml"],
        ["simulate", "job.yaml", "--cluster", "1x(8cpu,8GB)"],
    ],
    ids=lambda words: f"{words[0]} {words[1]}",
)
def test_no_command_calls_a_refused_target(tmp_path: Path, arguments: list[str]) -> None:
    variables = "".join(f"{name}: x\n" for name in ("input_path", "output_path", "reader", "writer"))
    used = "description: ${input_path}${output_path}${reader}${writer}\n"
    (tmp_path / "job.yaml").write_text(f"{variables}{used}stages:\n  - {{_target_: os.system, command: touch ran}}\n")
    (tmp_path / "other.yaml").write_text("stages:\n  - {_target_: JsonlReader}\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_text('{"text": "x"}\n')
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "a recipe may not call 'os.system'" in done.stderr
    assert done.returncode == 2
    assert not (tmp_path / "ran").exists()


def test_a_recipe_may_create_every_public_class_except_data_and_pipelines() -> None:
    """Only data classes, pipelines and plain functions are refused."""
    known = [(module, name) for module in CATALOGUES for name in import_module(module).__all__]
    known += [(ours.partition(":")[0], ours.partition(":")[2]) for names in NAMES.values() for ours in names.values()]
    refused = set()
    for module, name in known:
        found = getattr(import_module(module), name)
        bases = {f"{base.__module__}.{base.__qualname__}" for base in getattr(found, "__mro__", ())}
        if not bases & set(MAKEABLE):
            refused.add(name)
    assert refused == {
        "Damaged", "DocumentBatch", "DuplicateAlarmError", "EmptyTask", "FileGroupTask", "NodeInfo", "Pipeline", "Skipped",
        "StagePerfStats", "Task", "Verdicts", "WorkerMetadata", "WorkflowRunResult", "get_client", "get_stop_list_dict",
        "processing_stage",
    }  # fmt: skip


@pytest.mark.parametrize("name", MAKEABLE)
def test_every_class_in_the_list_of_allowed_classes_exists(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module), attribute)
    assert f"{found.__module__}.{found.__qualname__}" == name


def test_user_functions_and_classes_can_be_stages(tmp_path: Path) -> None:
    (tmp_path / "own_parts_of_recipe.py").write_text(
        "from penstock import processing_stage\n"
        "from penstock.text import DocumentFilter\n"
        "@processing_stage(name='strip')\n"
        "def strip(task): return task\n"
        "def plain(task): return task\n"
        "class Odd(DocumentFilter):\n"
        "    def score_document(self, text): return len(text)\n"
        "    def keep_document(self, score): return score % 2 == 1\n"
    )
    recipe = load(
        tmp_path,
        READER
        + "  - {_target_: own_parts_of_recipe.strip, batch_size: 4, resources: {cpus: 2}}\n"
        + "  - {_target_: ScoreFilter, filter_obj: {_target_: own_parts_of_recipe.Odd}}\n",
    )
    strip = recipe.pipeline.stages[1]
    assert isinstance(strip, FunctionStage)
    assert (strip.name, strip.batch_size, strip.resources.cpus) == ("strip", 4, 2)
    with pytest.raises(RecipeError, match=r"may not call 'own_parts_of_recipe\.plain'"):
        load(tmp_path, READER + "  - {_target_: own_parts_of_recipe.plain}\n")
    with pytest.raises(RecipeError, match="has no parameter 'task'; it has none"):
        load(tmp_path, READER + "  - {_target_: own_parts_of_recipe.strip, task: 1}\n")


@pytest.fixture
def elsewhere() -> Iterator[fsspec.AbstractFileSystem]:
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.rm("/recipes", recursive=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{_target_: never_imported_by_recipe.Stage}", "may use only names of Penstock"),
        ("{_target_: os.system}", "may use only names of Penstock"),
        ("{_target_: penstock.cli.doctor.os.system}", "there is no module"),
        ("{_target_: penstock.recipe.recipe.Path}", "may not call"),
        ("{_target_: AddId, id_field: id, runtime_env: {pip: [x]}}", "may not set runtime_env"),
        (
            "{_target_: ScoreFilter, filter_obj: {_target_: TokenCountFilter, kwargs: {trust_remote_code: true}}}",
            "may not set trust_remote_code",
        ),
    ],
)
def test_a_remote_recipe_imports_nothing_but_penstock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: fsspec.AbstractFileSystem, line: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "never_imported_by_recipe.py").write_text("open('ran', 'w')\n")
    elsewhere.pipe("/recipes/job.yaml", f"{READER}  - {line}\n".encode())
    path = list(sys.path)
    with pytest.raises(RecipeError, match=expected):
        load_recipe("memory://recipes/job.yaml")
    assert not (tmp_path / "ran").exists()
    assert sys.path == path


def test_a_remote_recipe_may_use_names_of_penstock(elsewhere: fsspec.AbstractFileSystem) -> None:
    names = ("AddId", "penstock.text.AddId", "nemo_curator.stages.text.modules.AddId")
    stages = "".join(f"  - {{_target_: {name}, id_field: id}}\n" for name in names)
    elsewhere.pipe("/recipes/job.yaml", (READER + stages).encode())
    assert len(load_recipe("memory://recipes/job.yaml").pipeline.stages) == 4


def test_a_recipe_from_a_file_url_is_treated_as_local(tmp_path: Path) -> None:
    (tmp_path / "own_stage_by_url.py").write_text(
        "from penstock import ProcessingStage\nclass Mine(ProcessingStage):\n    def process(self, task): return task\n"
    )
    (tmp_path / "job.yaml").write_text(READER + "  - {_target_: own_stage_by_url.Mine}\n")
    assert len(load_recipe(f"file://{tmp_path}/job.yaml").pipeline.stages) == 2
