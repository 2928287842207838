"""``penstock script`` runs a file as python does, with ``nemo_curator`` mapped to Penstock."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.script import command
from penstock.compat import finder


@pytest.fixture(autouse=True)
def _without_finder() -> Iterator[None]:
    finder.uninstall()
    yield
    finder.uninstall()


def run_script(folder: Path, source: str, *arguments: str) -> Result:
    file = folder / "script.py"
    file.write_text(source)
    return CliRunner().invoke(command, [str(file), *arguments])


def test_importing_nemo_curator_imports_penstock(tmp_path: Path) -> None:
    result = run_script(
        tmp_path, "from nemo_curator.pipeline import Pipeline\nprint(__name__, Pipeline('p').describe())"
    )
    assert result.output == "__main__ Pipeline 'p', 0 stages\n"


def test_everything_after_the_file_belongs_to_the_script(tmp_path: Path) -> None:
    result = run_script(tmp_path, "import sys; print(sys.argv[1:])", "--input", "a b", "-v", "--", "--help")
    assert result.output == "['--input', 'a b', '-v', '--', '--help']\n"


def test_modules_next_to_the_script_are_found_and_sys_path_is_restored(tmp_path: Path) -> None:
    before = list(sys.path), list(sys.argv)
    (tmp_path / "next_to_the_script.py").write_text("ANSWER = 42\n")
    result = run_script(tmp_path, "from next_to_the_script import ANSWER; print(ANSWER)")
    assert result.output == "42\n"
    assert (sys.path, sys.argv) == before


def test_the_exit_status_of_the_script_is_kept(tmp_path: Path) -> None:
    assert run_script(tmp_path, "raise SystemExit(7)").exit_code == 7


def test_a_missing_name_suggests_the_nearest(tmp_path: Path) -> None:
    result = run_script(tmp_path, "from nemo_curator.tasks import DocumentBach")
    assert "Nearest: DocumentBatch (penstock)" in str(result.exception)


def test_a_missing_file_is_a_usage_error() -> None:
    result = CliRunner().invoke(command, ["not_there.py"])
    assert result.exit_code == 2
    assert "not_there.py" in result.output


def test_help_shows_an_example_on_a_line_of_its_own() -> None:
    lines = CliRunner().invoke(command, ["--help"]).output.splitlines()
    assert "    penstock script curate.py --input docs/ --output clean/" in lines
