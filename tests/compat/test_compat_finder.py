"""Install and remove the ``nemo_curator`` import hook; missing names are explained."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import cloudpickle
import pyarrow as pa
import pytest

import penstock
from penstock.compat import finder


@pytest.mark.usefixtures("compat")
class TestWithFinder:
    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            (
                "from nemo_curator.stages.text.filters.heuristic import WordCuntFilter",
                "nemo_curator.stages.text.filters.heuristic.WordCuntFilter: Penstock has no such name. "
                "Nearest: WordCountFilter (penstock.text).",
            ),
            (
                "from nemo_curator.pipeline import ProcessingStag",
                "nemo_curator.pipeline.ProcessingStag: Penstock has no such name. "
                "Nearest: nemo_curator.stages.core.ProcessingStage (penstock).",
            ),
            (
                "from nemo_curator.stages.text.classifiers import QualityClassifier",
                "nemo_curator.stages.text.classifiers.QualityClassifier: Penstock has no such name. "
                "Nearest: ScoreFilter with a DocumentFilter of your own (penstock.text).",
            ),
            (
                "from nemo_curator.stages.text.io.raeder import JsonlReader",
                "nemo_curator.stages.text.io.raeder: Penstock has no such module. "
                "Nearest: nemo_curator.stages.text.io.reader, which has JsonlReader, ParquetReader, jsonl, parquet.",
            ),
            (
                "import nemo_curator.stages.text.zzz",
                "nemo_curator.stages.text.zzz: Penstock has no such module. "
                "Nearest: nemo_curator.stages.text, which has deduplication, download, filters, io, modifiers, modules.",
            ),
        ],
    )
    def test_a_missing_name_is_an_import_error_that_names_the_nearest(self, statement: str, message: str) -> None:
        with pytest.raises(ImportError) as caught:
            exec(statement, {})
        assert str(caught.value) == message

    def test_probing_for_an_attribute_is_not_an_import(self) -> None:
        module = import_module("nemo_curator.tasks")
        assert not hasattr(module, "VideoTask")
        assert not hasattr(module, "__wrapped__")
        with pytest.raises(AttributeError, match=r"Nearest: DocumentBatch \(penstock\)"):
            _ = module.DocumentBach

    def test_star_import_gives_the_public_names(self) -> None:
        namespace: dict[str, object] = {}
        exec("from nemo_curator.tasks import *", namespace)
        assert set(namespace) - {"__builtins__"} == {"DocumentBatch", "EmptyTask", "FileGroupTask", "Task"}

    def test_modules_can_be_imported_from_packages(self) -> None:
        namespace: dict[str, object] = {}
        exec("from nemo_curator.stages import resources, text", namespace)
        assert vars(namespace["resources"])["__name__"] == "nemo_curator.stages.resources"

    def test_a_pickle_does_not_need_the_finder(self) -> None:
        batch = import_module("nemo_curator.tasks").DocumentBatch("demo", pa.table({"text": ["a"]}))
        pickled = pickle.dumps(batch)
        assert b"nemo_curator" not in pickled
        assert pickle.loads(pickled).data.equals(batch.data)

    def test_a_stage_subclassed_through_the_other_name_is_a_stage_of_ours(self) -> None:
        namespace: dict[str, object] = {"__name__": "__main__"}
        exec("from nemo_curator.stages.base import ProcessingStage\nclass Mine(ProcessingStage): pass", namespace)
        pickled = cloudpickle.dumps(namespace["Mine"])
        finder.uninstall()
        assert issubclass(pickle.loads(pickled), penstock.ProcessingStage)

    def test_installing_twice_changes_nothing(self) -> None:
        before = list(sys.meta_path)
        finder.install()
        assert sys.meta_path == before


@pytest.mark.usefixtures("no_compat")
def test_nemo_curator_cannot_be_imported_without_the_finder() -> None:
    finder.install()
    import_module("nemo_curator.tasks")
    finder.uninstall()
    assert importlib.util.find_spec("nemo_curator") is None


@pytest.mark.usefixtures("no_compat")
def test_a_folder_named_nemo_curator_is_not_treated_as_the_real_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nemo_curator").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    finder.install()  # a warning would be an error
    assert import_module("nemo_curator.pipeline").Pipeline is penstock.Pipeline


@pytest.mark.usefixtures("real_package")
def test_the_real_package_is_hidden_with_a_warning_when_it_is_only_installed() -> None:
    with pytest.warns(finder.RealPackageHidden, match=r"drop 'import penstock\.compat\.nemo_curator'"):
        import_module("penstock.compat.nemo_curator")
    assert not hasattr(import_module("nemo_curator"), "REAL")
    finder.uninstall()
    assert import_module("nemo_curator").REAL


@pytest.mark.usefixtures("real_package")
def test_the_real_package_already_imported_is_an_error() -> None:
    real = import_module("nemo_curator")
    with pytest.raises(ImportError, match=r"already imported .* on the first line of the script"):
        import_module("penstock.compat.nemo_curator")
    assert import_module("nemo_curator") is real


def test_one_import_line_is_enough_for_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import penstock.compat.nemo_curator\n"
        "from nemo_curator.stages.resources import Resources\n"
        "print(Resources(gpus=2))\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("1 CPU, 2 GPUs\n", "")
