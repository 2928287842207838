"""Every code block of the documentation runs as it stands, or says why not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from doc_blocks import NEEDS_RAY, ROOT, RUN, SHOWN, Block, assert_shown, blocks, pages, run_page

# How to contribute is followed on a copy of the repository: see test_contributing.py.
PAGES = [page for page in pages() if page != "CONTRIBUTING.md" and any(block.language in RUN for block in blocks(page))]


def marked(page: str) -> object:
    needs_ray = NEEDS_RAY in (ROOT / page).read_text(encoding="utf-8")
    return pytest.param(page, marks=pytest.mark.ray) if needs_ray else page


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_the_blocks_of_a_page_run_in_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    before = set(sys.modules)
    try:
        run_page(page, tmp_path)
    finally:  # a module that a page wrote is not the module of the same name of another page
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[name]


@pytest.mark.parametrize("page", pages())
def test_every_block_says_what_it_is_and_why_it_is_not_run(page: str) -> None:
    for block in blocks(page):
        assert block.language in (*RUN, *SHOWN), f"{block.where}: a block begins with one of {(*RUN, *SHOWN)}"
        assert block.marks.get("not run", "reason"), f"{block.where}: say why it is not run"


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_writes_is_used_by_a_later_block(page: str) -> None:
    found = blocks(page)
    for position, block in enumerate(found):
        if block.file_name is not None and "not run" not in block.marks:
            name = Path(block.file_name).stem
            assert any(re.search(rf"\b{name}\b", later.code) for later in found[position + 1 :]), block.where


def test_a_block_that_shows_something_else_than_is_printed_is_caught() -> None:
    assert_shown("kept 3 of …\nin 2 files", "Run.\nkept 3 of 5   documents\nin 2 files\n", "page")
    with pytest.raises(AssertionError, match="the page shows"):
        assert_shown("kept 4 of …", "kept 3 of 5", "page")


def test_marks_before_a_block_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doc_blocks.ROOT", tmp_path)
    (tmp_path / "a.md").write_text("Text.\n\n<!-- first: true -->\n<!-- not run: a cluster -->\n```console\n$ x\n```\n")
    assert blocks("a.md") == [Block("a.md", 5, "console", "$ x\n", {"first": "true", "not run": "a cluster"})]
