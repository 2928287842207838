"""What a user may import is listed, is there, and costs nothing until it is used."""

import importlib
import json
import subprocess
import sys
from types import ModuleType

import pytest

import penstock

HEAVY = {"numba", "pandas", "pyarrow", "torch", "ray"}


@pytest.mark.parametrize("name", ["penstock", "penstock.dedup", "penstock.text", "penstock.testing"])
def test_every_listed_name_can_be_imported_and_the_list_is_sorted(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__all__ == sorted(set(module.__all__))
    assert all(hasattr(module, public) for public in module.__all__)


@pytest.mark.parametrize("name", ["penstock.text", "penstock.testing"])
def test_every_class_and_function_of_ours_that_is_not_listed_belongs_elsewhere(name: str) -> None:
    module = importlib.import_module(name)
    own = {
        public
        for public, thing in vars(module).items()
        if not public.startswith("_") and not isinstance(thing, ModuleType) and getattr(thing, "__module__", "") == name
    }
    assert own <= set(module.__all__)


def test_the_front_door_shows_exactly_what_it_lists() -> None:
    assert set(dir(penstock)) == {*penstock.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'NoSuchThing'"):
        penstock.NoSuchThing  # type: ignore[attr-defined]  # noqa: B018
    for name in penstock.__all__:
        assert getattr(penstock, name).__module__.startswith("penstock.")


def test_what_a_user_types_first_comes_from_the_top() -> None:
    first = {
        "CompositeStage",
        "DocumentBatch",
        "InlineExecutor",
        "Pipeline",
        "ProcessingStage",
        "Resources",
        "StreamingExecutor",
        "processing_stage",
    }
    assert first <= set(penstock.__all__)


@pytest.mark.parametrize("name", ["penstock", "penstock.cli.main"])
def test_starting_loads_nothing_heavy(name: str) -> None:
    script = f"import json, sys, {name}; print(json.dumps(list(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & {module.split(".")[0] for module in json.loads(loaded.stdout)}
