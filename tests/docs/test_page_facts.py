"""What pages say about the code is true: names in tables, files of the walk, counts."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest
from doc_blocks import ROOT

from penstock.compat.names import NAMES
from penstock.reference.catalogue import entries


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_every_file_of_the_walk_is_there_and_the_number_of_hops_is_right() -> None:
    text = text_of("explanation/walk.md")
    hops = re.findall(r"^(\d+)\. `([\w/]+\.py)`", text, flags=re.MULTILINE)
    assert [path for _, path in hops if not (ROOT / "src/penstock" / path).exists()] == []
    assert [int(number) for number, _ in hops] == list(range(1, len(hops) + 1))
    assert f"There are {len(hops)} hops" in text


def test_files_named_in_explanations_are_there() -> None:
    for page in (ROOT / "docs/explanation").glob("*.md"):
        named = re.findall(r"`((?:[a-z]+/)+\w+\.py)`", page.read_text(encoding="utf-8"))
        there = [path for path in named if (ROOT / "src/penstock" / path).exists() or (ROOT / path).exists()]
        assert there == named, page.name


def test_the_table_of_nemo_curator_has_every_name_that_is_served() -> None:
    build_site: dict[str, Any] = runpy.run_path(str(ROOT / "docs/build_site.py"))
    assert build_site["NEMO_TABLE"] in text_of("tutorials/from-nemo-curator.md")
    table = build_site["nemo_table"]()
    assert [name for names in NAMES.values() for name in names if f"| `{name}` |" not in table] == []


def test_what_the_table_of_datatrove_names_is_in_penstock() -> None:
    rows = re.findall(r"^\| `.*? \| (.*?) \| .*\|$", text_of("tutorials/from-datatrove.md"), flags=re.MULTILINE)
    assert len(rows) > 30
    named = {name for row in rows for name in re.findall(r"\b([A-Z]\w+(?:Filter|Stage|Workflow|Writer|Reader|Quality|"
             r"Repetition|Executor|Client|Reformatter|Remover|LangId|Batch|Algorithm))\b", row)}  # fmt: skip
    assert named >= {"GopherQuality", "FuzzyDeduplicationWorkflow", "UnicodeReformatter"}
    assert named - set(entries()) == set()


@pytest.mark.parametrize("scheme", ["#ffffff", "prefers-color-scheme: dark"])
def test_the_picture_has_colours_for_light_and_dark(scheme: str) -> None:
    assert scheme in text_of("assets/penstock.svg")
