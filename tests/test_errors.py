"""Errors say what to do, print their message unchanged, and can be pickled."""

import copy
import pickle
import re
import signal
from pathlib import Path

import pytest

from penstock import errors
from penstock.errors import MissingColumnError, MissingExtraError, PlanError, Terminated, nearest
from penstock.extras import PROBES, is_installed, require


def test_every_error_is_in_the_hierarchy_of_the_docstring() -> None:
    sources = Path(errors.__file__).parent.rglob("*.py")
    defined = {name for path in sources for name in re.findall(r"^class (\w+Error)\(", path.read_text(), re.MULTILINE)}
    assert set(re.findall(r"\w+Error", errors.__doc__ or "")) == defined


@pytest.mark.parametrize(
    "error",
    [
        PlanError("p", ["one", "two"]),
        MissingColumnError("s", "text", ["id", "body"], "text_field"),
        MissingExtraError("torch", "models", "Classifying"),
        Terminated(signal.SIGTERM),
    ],
)
def test_an_error_can_be_pickled(error: BaseException) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("present", "parameter", "hint"),
    [
        (["id", "body"], "text_field", "the batch has 'id', 'body'. Set text_field='body' if that is the one."),
        (["id", "texts", "body"], "text_field", "Set text_field='texts' if that is the one."),
        (["id"], None, "the batch has 'id'."),
        ([], "text_field", "the batch has no columns at all."),
    ],
)
def test_a_missing_column_suggests_another(present: list[str], parameter: str | None, hint: str) -> None:
    message = str(MissingColumnError("clean", "text", present, parameter))
    assert message.startswith("stage 'clean': column 'text' is missing; the batch has")
    assert message.endswith(hint)


def test_errors_are_also_instances_of_builtin_exceptions() -> None:
    assert issubclass(PlanError, ValueError)
    assert issubclass(MissingColumnError, KeyError)
    assert issubclass(MissingExtraError, ImportError)


def test_the_nearest_name_ignores_case() -> None:
    assert nearest("jsonlreader", ["JsonlReader", "ParquetReader"]) == "JsonlReader"
    assert nearest("zzz", ["JsonlReader"]) is None


def test_a_missing_extra_names_the_pip_command() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'penstock\[models\]'"):
        require("surely_not_installed", "models", "Classifying")
    assert is_installed("pandas")
    assert set(PROBES) >= {"ray", "models", "gpu", "image", "video", "monitor", "lang"}


def test_a_broken_import_inside_an_installed_extra_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed.py").write_text("import surely_not_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed") as caught:
        require("half_installed", "models", "Classifying")
    assert not isinstance(caught.value, MissingExtraError)
