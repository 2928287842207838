"""Packages that load what is used: all they offer is there, under the name type checkers know, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["penstock.text", "penstock.dedup"])
def test_everything_offered_is_there(package: str) -> None:
    module = import_module(package)
    assert len(module.__all__) > 5
    for name in module.__all__:
        assert getattr(module, name).__name__ == name
    assert dir(module) == module.__all__


def test_a_name_nobody_offers_is_an_error_that_names_it() -> None:
    with pytest.raises(ImportError, match="NoSuchFilter"):
        from penstock.text import NoSuchFilter  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError, match=r"'penstock\.text' has no attribute 'NoSuchFilter'"):
        _ = import_module("penstock.text").NoSuchFilter


def test_who_deduplicates_loads_neither_numba_nor_pandas() -> None:
    script = (
        "import sys; from penstock.dedup import ExactDeduplicationWorkflow; print({'numba', 'pandas'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "set()"
