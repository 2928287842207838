"""A path given as an argument is text, even if YAML would parse it as a number or date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.recipe.recipe import load_recipe

ODD_NAMES = ["2024", "2024-10-01", "null", "yes", "1e3", "a: b", "${x}", "${input_path}", "it's", '"q"', "a,b", "#x", "- a", "&a", "0x10"]  # fmt: skip


def penstock(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_variables_are_used_without_parsing(name: str) -> None:
    recipe = load_recipe("gopher", variables={"input_path": name, "output_path": f"out-{name}", "text_field": name})
    assert recipe.pipeline.stages[0].reads_from() == [name]
    assert recipe.pipeline.stages[-1].writes_to() == f"out-{name}"


def test_overrides_take_precedence_over_variables_and_are_parsed_as_yaml() -> None:
    recipe = load_recipe("gopher", ["output_path='7'"], variables={"input_path": "in", "output_path": "out"})
    assert recipe.pipeline.stages[-1].writes_to() == "7"


@pytest.mark.parametrize(("source", "target"), [("2024", "clean"), ("crawl", "2024-10-01"), ("${x}", "null")])  # fmt: skip
def test_curate_treats_paths_as_text(tmp_path: Path, source: str, target: str) -> None:
    (tmp_path / source).mkdir()
    (tmp_path / source / "a.jsonl").write_text('{"id": "1", "text": "too short"}\n')
    done = penstock(tmp_path, "curate", source, target, "--recipe", "gopher")
    assert done.returncode == 0, done.stderr
    assert "Read 1 document," in done.stderr
    assert (tmp_path / target / "_penstock/summary.json").exists()


@pytest.mark.parametrize("command", [["curate", "NAME", "out"], ["preview", "NAME"], ["dedup", "exact", "NAME", "out"]])
@pytest.mark.parametrize("name", ["null", "${x}"])
def test_a_missing_path_is_named_as_typed(tmp_path: Path, command: list[str], name: str) -> None:
    done = penstock(tmp_path, *(name if word == "NAME" else word for word in command))
    assert f"{name}: there is no such file or folder." in done.stderr
    assert done.returncode == 2


def test_preview_and_dedup_treat_paths_as_text(tmp_path: Path) -> None:
    (tmp_path / "2024").mkdir()
    (tmp_path / "2024/a.jsonl").write_text('{"id": "1", "text": "too short"}\n' * 2)
    done = penstock(tmp_path, "preview", "2024", "--recipe", "gopher", "--text-field", "text")
    assert done.returncode == 0, done.stderr
    done = penstock(tmp_path, "dedup", "exact", "2024", "2024-10-01")
    assert done.returncode == 0, done.stderr
    assert "Found 1 duplicate in 2 documents" in done.stdout


@pytest.mark.parametrize("value", ["2024-10-01", "null"])
def test_an_override_that_yaml_does_not_read_as_text_must_be_quoted(tmp_path: Path, value: str) -> None:
    done = penstock(tmp_path, "plan", "gopher", f"input_path={value}", "output_path=out")
    assert "JsonlReader expects text for 'file_paths'; YAML reads this value as" in done.stderr
    assert "Put it in quotes" in done.stderr
    assert done.returncode == 2
