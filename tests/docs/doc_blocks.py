"""Code blocks of a page: found, and run in order in a folder of their own.

Python blocks of a page share one namespace. A block whose first line is a comment with a file name (``# clean.yaml``,
``# stage.py``) is written to that file. A YAML block without a name is built as a recipe. Each ``$`` line of a console
block is run by bash; lines below it must occur in its output, where ``…`` stands for anything.

HTML comments on the lines before a block, invisible on the page, say what the text cannot:

    <!-- not run: REASON -->   the block is not run, and why
    <!-- data: crawl -->       a folder the block reads, made by page_data.py
    <!-- first: COMMAND -->    what else has to be done before the block
    <!-- output -->            the block is what the Python block before it prints
    <!-- needs ray -->         anywhere on the page: its test starts a Ray and is marked so
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from page_data import MAKERS

from penstock.recipe.recipe import load_recipe

ROOT = Path(__file__).resolve().parents[2]
NEEDS_RAY = "<!-- needs ray -->"
# What a block may be. Text and the formats of data are shown, not run.
RUN = ("python", "console", "yaml")
SHOWN = ("text", "json", "pycon", "diff")
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE
)
_MARK = re.compile(r"<!-- (not run|data|first|output)(?:: (.*?))? -->")
_FILE_NAME = re.compile(r"^# ([\w./-]+\.(?:py|yaml))\n")
_DEADLINE_S = 300


@dataclass(frozen=True)
class Block:
    """A code block, the line it begins on, and the marks before it."""

    page: str
    line: int
    language: str
    code: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str | None:
        """The file it is written to, if it names one."""
        found = _FILE_NAME.match(self.code)
        return found[1] if found else None

    @property
    def where(self) -> str:
        """Where it is, for messages."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Return every page with code of its own: guides, tutorials, explanations, and how to contribute."""
    found = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
    return [*found, "CONTRIBUTING.md"]


def blocks(page: str, language: str | None = None) -> list[Block]:
    """Return the blocks of a page in order, or those in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()].rstrip("\n").split("\n")
        marks: dict[str, str] = {}
        while before and (mark := _MARK.fullmatch(before[-1].strip())):
            marks[mark[1]] = mark[2] or ""
            before.pop()
        code = re.sub(rf"^{fence['indent']}", "", fence["code"], flags=re.MULTILINE)
        found.append(Block(page, text.count("\n", 0, fence.start()) + 1, fence["language"], code, marks))
    return [block for block in found if language is None or block.language == language]


def run_page(page: str, folder: Path) -> None:
    """Run the blocks of a page in order; the working directory has to be ``folder``."""
    namespace: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        if "not run" in block.marks:
            continue
        if "data" in block.marks:
            MAKERS[block.marks["data"]](folder / block.marks["data"])
        if "first" in block.marks:
            _shell(block.marks["first"], folder, block.where)
        if block.file_name is not None:
            target = folder / block.file_name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            printed = _run_python(block, namespace)
        elif block.language == "console":
            _run_console(block, folder)
        elif block.language == "yaml":
            _build_recipe(block, folder)
        elif "output" in block.marks:
            assert_shown(block.code, printed, block.where)


def _run_python(block: Block, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    # Lines before it, so that an error names the line of the page.
    code = compile("\n" * block.line + block.code, block.page, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def _run_console(block: Block, folder: Path) -> None:
    parts = re.split(r"^\$ ", block.code, flags=re.MULTILINE)
    assert not parts[0].strip(), f"{block.where}: a console block begins with '$ '"
    for part in parts[1:]:
        command, _, shown = re.sub(r"\\\n", "", part).partition("\n")
        printed = _shell(command, folder, block.where)
        assert_shown(shown, printed, f"{block.where}: $ {command}")


def _shell(command: str, folder: Path, where: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, f"{where}: {command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def _build_recipe(block: Block, folder: Path) -> None:
    file = folder / "block.yaml"
    file.write_text(block.code, encoding="utf-8")
    load_recipe(str(file))


def assert_shown(shown: str, printed: str, where: str) -> None:
    """Assert that what a page shows occurs in what was printed, but for white space and what ``…`` stands for."""
    wanted = [re.escape(part.strip()) for part in " ".join(shown.split()).split("…")]
    found = re.search(".*?".join(wanted), " ".join(printed.split()))
    assert found, f"{where}: the page shows\n{shown}\nbut this was printed\n{printed}"
