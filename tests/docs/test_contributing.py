"""CONTRIBUTING.md is true: its list of layers is the one that is checked, and its guide works on a fresh copy."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from doc_blocks import ROOT, blocks

PAGE = "CONTRIBUTING.md"


def layers() -> tuple[str, ...]:
    """Return the list of tests/test_layers.py, which other tests cannot import."""
    tree = ast.parse((ROOT / "tests/test_layers.py").read_text(encoding="utf-8"))
    [value] = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS"
    ]
    found: tuple[str, ...] = ast.literal_eval(value)
    return found


def test_the_layers_are_those_that_are_checked_in_the_same_order() -> None:
    [block] = blocks(PAGE, "text")
    listed = [line.split()[0] for line in block.code.splitlines() if line[0] != " "]
    package = ROOT / "src/penstock"
    there = [
        name for layer in layers() for name in (f"{layer}/", f"{layer}.py") if (package / name.rstrip("/")).exists()
    ]
    assert listed == there


def test_the_guide_to_a_filter_works_when_followed_word_by_word(tmp_path: Path) -> None:
    clone = tmp_path / "penstock"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", clone / "src", ignore=ignored)
    shutil.copytree(ROOT / "recipes", clone / "recipes")
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, clone / name)
    for block in blocks(PAGE):
        if block.file_name is not None:
            target = clone / block.file_name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("".join(block.code.splitlines(keepends=True)[1:]))
        elif block.language == "diff":
            apply(block.code, clone / "src/penstock/text/__init__.pyi")
    (clone / "question.yaml").write_text(
        "stages:\n  - {_target_: JsonlReader, file_paths: in/}\n"
        "  - {_target_: ScoreFilter, filter_obj: {_target_: QuestionFilter}}\n"
    )
    commands = [line.removeprefix("$ ") for block in blocks(PAGE, "console")[1:] for line in block.code.splitlines()]
    assert len(commands) == 2
    recipe = "python -c 'from penstock.recipe.recipe import load_recipe; load_recipe(\"question.yaml\")'"
    printed = ""
    for command in [recipe, "ruff check --no-cache src/penstock/text tests", *commands]:
        done = run(command.replace(".venv/bin/", ""), clone)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        printed = done.stdout
    assert "Drop documents in which most lines are questions." in printed
    assert re.search(r"Empty document +scores 0 and is kept", printed)


def apply(diff: str, file: Path) -> None:
    """Insert each line that a diff adds after the line it shows before it."""
    text = file.read_text(encoding="utf-8")
    before = ""
    for line in diff.splitlines():
        if line.startswith("+"):
            assert text.count(f"{before}\n") == 1, (
                f"CONTRIBUTING.md shows a line that {file.name} does not have: {before}"
            )
            text = text.replace(f"{before}\n", f"{before}\n{line[1:]}\n")
        before = line[1:]
    file.write_text(text, encoding="utf-8")


def run(command: str, clone: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with the programs of this environment and the source of the copy."""
    program, _, rest = command.partition(" ")
    module = f"{sys.executable} -m {program}" if program in ("penstock", "pytest", "ruff") else sys.executable
    environment = {**os.environ, "PYTHONPATH": str(clone / "src"), "COLUMNS": "120"}
    return subprocess.run(
        ["bash", "-c", f"{module} {rest}"], cwd=clone, env=environment, capture_output=True, text=True, timeout=300
    )
