"""What the tests of the compatibility layer share: the name ``nemo_curator``, there for one test only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.compat import finder

# The scripts are run by test_user_scripts; without the finder they cannot even be imported.
collect_ignore = ["scripts"]


@pytest.fixture
def no_compat() -> Iterator[None]:
    """Start and end without the finder, whatever ran before."""
    finder.uninstall()
    yield
    finder.uninstall()


@pytest.fixture
def compat(no_compat: None) -> None:
    """Make ``nemo_curator`` importable for one test."""
    finder.install()


@pytest.fixture
def real_package(no_compat: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a package called ``nemo_curator`` on the path, as an installed one would be."""
    package = tmp_path / "nemo_curator"
    package.mkdir()
    (package / "__init__.py").write_text("REAL = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("nemo_curator", None)
