"""Packages with lazy imports offer exactly the names that type checkers see."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["penstock.text", "penstock.dedup"])
def test_every_offered_name_can_be_imported(package: str) -> None:
    module = import_module(package)
    assert len(module.__all__) > 5
    for name in module.__all__:
        assert getattr(module, name).__name__ == name
    assert dir(module) == module.__all__


def test_an_unknown_name_raises_an_error_that_names_it() -> None:
    with pytest.raises(ImportError, match="NoSuchFilter"):
        from penstock.text import NoSuchFilter  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError, match=r"'penstock\.text' has no attribute 'NoSuchFilter'"):
        _ = import_module("penstock.text").NoSuchFilter


def test_importing_dedup_loads_neither_numba_nor_pandas() -> None:
    script = (
        "import sys; from penstock.dedup import ExactDeduplicationWorkflow; print({'numba', 'pandas'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "set()"
