"""Relative links of README.md, CONTRIBUTING.md and the pages of docs/ lead to files and headings that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_blocks import ROOT, pages

# Pages that are made when the site is built; tests/docs/test_site.py checks links to them.
GENERATED = ("docs/reference/", "docs/decisions/index.md")
_FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, as MkDocs and GitHub make them from headings."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", ["README.md", *pages()])
def test_relative_links_lead_somewhere(page: str) -> None:
    text = _FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    wrong = []
    for link in _LINK.findall(text):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        if str(target.relative_to(ROOT)).startswith(GENERATED):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_files_that_are_named_in_the_text_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:docs|src|tests|recipes|benchmarks|examples)/[\w./-]*)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = [page for page in pages() if page.startswith("docs/") and not page.startswith("docs/decisions/")]
    assert [page for page in listed if page.removeprefix("docs/") not in settings] == []
