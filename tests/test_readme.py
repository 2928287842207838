"""The code blocks of README.md run as written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.extras import PROBES

ROOT = Path(__file__).resolve().parents[1]
WORDS = "one two three four five six seven "


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, flags=re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


@pytest.fixture
def crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "crawl"
    folder.mkdir()
    documents = [{"id": 1, "text": f"  {WORDS}"}, {"id": 2, "text": "short"}]
    (folder / "a.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    return tmp_path


def written(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_the_python_block_of_the_readme(crawl: Path) -> None:
    [block] = blocks("README.md", "python")
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert written(crawl / "clean") == [{"id": 1, "text": WORDS.strip(), "words": 7}]


# Python imports this at the start of every process of a run; then it finds no module of these names.
BLOCK = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec


def find_others(_class, name, path=None, target=None):
    return None if name.partition(".")[0] in {absent!r} else find(name, path, target)


PathFinder.find_spec = classmethod(find_others)
"""


def without_extras(folder: Path) -> dict[str, str]:
    """Return an environment with what the README's install command brings, and no other optional library."""
    [command] = re.findall(r"^\$ (pip install .*)$", "".join(blocks("README.md", "console")), flags=re.MULTILINE)
    brought = re.findall(r"\w+", (re.search(r"\[(.*?)\]", command) or [""])[0])
    absent = {module for extra, modules in PROBES.items() if extra not in brought for module in modules}
    (folder / "absent").mkdir()
    (folder / "absent/sitecustomize.py").write_text(BLOCK.format(absent=absent))
    return {**os.environ, "PYTHONPATH": f"{folder}/absent"}


def test_the_python_block_of_the_readme_works_after_its_install_command(crawl: Path) -> None:
    [block] = blocks("README.md", "python")
    (crawl / "script.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "script.py"], env=without_extras(crawl), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert written(crawl / "clean") == [{"id": 1, "text": WORDS.strip(), "words": 7}]


def test_a_stage_that_needs_pandas_names_the_command_that_installs_it(crawl: Path) -> None:
    (crawl / "script.py").write_text(
        "from penstock import InlineExecutor, Pipeline, processing_stage\n"
        "from penstock.text import JsonlReader\n"
        "@processing_stage(name='frames')\n"
        "def frames(task):\n"
        "    task.to_pandas()\n"
        "    return task\n"
        "Pipeline('p', stages=[JsonlReader('crawl/'), frames]).run(InlineExecutor())\n"
    )
    environment = without_extras(crawl)
    done = subprocess.run([sys.executable, "script.py"], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert (
        "DocumentBatch.to_pandas() needs 'pandas', which is not installed. Type: pip install 'penstock[pandas]'"
        in done.stderr
    )


def test_the_commands_of_the_readme(crawl: Path) -> None:
    """Everything after ``pip install .``; installing and the two make targets are what runs this test."""
    lines = "".join(blocks("README.md", "console")).splitlines()
    commands = [line.removeprefix("$ ").split("#")[0].split() for line in lines if line.startswith("$ penstock")]
    assert [words[1] for words in commands] == ["demo", "curate", "why", "dedup", "doctor"]
    for words in commands:
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
