"""Public names are listed, can be imported, and are loaded only when used."""

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
def test_names_that_are_not_listed_belong_to_other_modules(name: str) -> None:
    module = importlib.import_module(name)
    own = {
        public
        for public, thing in vars(module).items()
        if not public.startswith("_") and not isinstance(thing, ModuleType) and getattr(thing, "__module__", "") == name
    }
    assert own <= set(module.__all__)


def test_the_top_package_offers_exactly_the_listed_names() -> None:
    assert set(dir(penstock)) == {*penstock.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'NoSuchThing'"):
        penstock.NoSuchThing  # type: ignore[attr-defined]  # noqa: B018
    for name in penstock.__all__:
        assert getattr(penstock, name).__module__.startswith("penstock.")


def test_common_names_are_offered_by_the_top_package() -> None:
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
def test_importing_loads_no_heavy_module(name: str) -> None:
    script = f"import json, sys, {name}; print(json.dumps(list(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & {module.split(".")[0] for module in json.loads(loaded.stdout)}
