"""The documentation site builds without a warning, can be opened as files, and asks no other host for anything."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from doc_blocks import ROOT, pages

from penstock.reference.catalogue import entries
from penstock.reference.recipes import recipe_entries

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Attributes whose address a browser loads by itself. Links that a reader may follow are another matter.
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "link": "href",
    "object": "data",
}
_DEADLINE_S = 120
# In one process: the site is built once.
pytestmark = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("docs")
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); from pathlib import Path; from build_site import build; "
        f"build(Path({str(folder / 'site')!r}), Path({str(folder / 'work')!r}))"
    )
    (folder / "work").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=_DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder / "site"


class Loads(HTMLParser):
    """Collects what a page loads, the ids it has and the links it offers."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in LOADED and LOADED[tag] in given:
            self.loads.append(given[LOADED[tag]])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.ids.add(given.get("id", ""))
        self.classes.update(given.get("class", "").split())


def read(page: Path) -> Loads:
    parser = Loads()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_no_page_and_no_style_loads_anything_from_another_host(site: Path) -> None:
    found = [
        (str(page), url) for page in site.rglob("*.html") for url in read(page).loads if re.match(r"(\w+:)?//", url)
    ]
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        urls = re.findall(r"""(?:url\(|@import )\s*["']?((?:https?:)?//[^"')]+)""", text)
        found += [(str(style), url) for url in urls]
    assert found == []
    # The theme's script would load this program from another host for diagrams, and the name of a repository.
    assert not any({"mermaid", "md-source"} & read(page).classes for page in site.rglob("*.html"))


def test_every_link_inside_the_site_leads_to_a_page_and_an_anchor_that_are_there(site: Path) -> None:
    known = {page: read(page) for page in site.rglob("*.html")}
    wrong = []
    for page, content in known.items():
        if page.name == "404.html":
            continue  # its links are absolute: it is shown for any address
        for link in content.links:
            if re.match(r"\w+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if target.is_dir():
                target /= "index.html"
            if not target.exists() or (anchor and target in known and anchor not in known[target].ids):
                wrong.append((str(page.relative_to(site)), link))
    assert wrong == []


def test_every_page_of_the_docs_is_in_the_site(site: Path) -> None:
    for page in pages():
        if page.startswith("docs/"):
            assert (site / page.removeprefix("docs/").replace(".md", ".html")).exists(), page


def test_every_public_name_recipe_and_command_has_a_section_in_the_reference(site: Path) -> None:
    categories = {entry.category for entry in entries().values()}
    there = {category: read(site / f"reference/{category}.html").ids for category in categories}
    assert [name for name, entry in entries().items() if name.lower() not in there[entry.category]] == []
    assert set(recipe_entries()) <= read(site / "reference/recipes.html").ids
    from penstock.cli.main import COMMANDS

    assert {f"penstock-{name}" for name in COMMANDS} <= read(site / "reference/cli.html").ids


def test_search_finds_names_of_the_reference(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    titles = {document["title"] for document in index["docs"]}
    assert {"WordCountFilter", "FuzzyDeduplicationWorkflow", "Moving from datatrove"} <= titles


def opened(address: str, log: Path) -> str:
    """Open an address in a browser, log its requests, and return the page as it became."""
    flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
    ]
    profile = log.with_suffix(".profile")
    command = [
        str(CHROMIUM),
        *flags,
        f"--user-data-dir={profile}",
        f"--log-net-log={log}",
        "--virtual-time-budget=5000",
    ]
    done = subprocess.run(
        [*command, "--dump-dom", address], capture_output=True, text=True, timeout=_DEADLINE_S, check=False
    )
    assert "<body" in done.stdout, done.stderr
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("address", ["index.html?q=WordCountFilter", "reference/filters.html"])
def test_a_browser_that_opens_the_files_asks_no_other_host(site: Path, tmp_path: Path, address: str) -> None:
    page = opened(f"file://{site}/{address}", tmp_path / "net.json")
    if "?q=" in address:  # search works without a server too
        assert re.search(r"md-search-result__link.*reference/filters\.html[^\"]*#wordcountfilter", page)
    assert requests_of_the_page(tmp_path / "net.json") == []


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_request_of_a_page_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<body><img src="http://penstock.invalid/x.png"></body>')
    opened(f"file://{tmp_path}/page.html", tmp_path / "net.json")
    assert requests_of_the_page(tmp_path / "net.json") == ["http://penstock.invalid/x.png"]


def requests_of_the_page(log: Path) -> list[str]:
    """Return the addresses that the page asked for; what the browser asks for by itself has no origin."""
    events = json.loads(log.read_text(encoding="utf-8"))["events"]
    asked = [event["params"] for event in events if {"url", "initiator"} <= set(event.get("params", {}))]
    return [
        params["url"] for params in asked
        if params["initiator"] != "not an origin" and not params["url"].startswith(("file:", "data:", "blob:"))
    ]  # fmt: skip
