"""The result of another input is replaced only with ``overwrite``, and no output is written into the input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from corpora import contents, essay, ids, quiet, write_jsonl

from penstock.dedup import (
    ExactDeduplicationWorkflow,
    FuzzyDeduplicationWorkflow,
    LineDeduplicationWorkflow,
    TextDuplicatesRemovalWorkflow,
    UrlDeduplicationWorkflow,
)
from penstock.errors import InputError, OutputError, PenstockError


def write_days(folder: Path) -> None:
    for day in ("day1", "day2"):
        rows = [{"id": f"{day}-{n}", "text": f"{essay(n % 3)}\n{day}", "url": f"example.org/{n % 3}"} for n in range(5)]
        write_jsonl(folder / f"{day}/crawl/part-0.jsonl", rows)


def exact(folder: Path, source: str, output: str = "out", **settings: Any) -> ExactDeduplicationWorkflow:
    paths = str(folder / output), str(folder / source), "jsonl"
    return ExactDeduplicationWorkflow(*paths, show_progress=False, **{"perform_removal": True, **settings})


def urls(folder: Path, source: str, output: str = "out", **settings: Any) -> UrlDeduplicationWorkflow:
    return UrlDeduplicationWorkflow(
        str(folder / output), str(folder / source), "jsonl", show_progress=False, **settings
    )


def lines(folder: Path, source: str, output: str = "out", **settings: Any) -> LineDeduplicationWorkflow:
    paths = str(folder / output), str(folder / source), "jsonl"
    return LineDeduplicationWorkflow(*paths, show_progress=False, max_documents=2, **settings)


def fuzzy(folder: Path, source: str, output: str = "out", **settings: Any) -> FuzzyDeduplicationWorkflow:
    paths = str(folder / "cache"), str(folder / output), str(folder / source), "jsonl"
    return FuzzyDeduplicationWorkflow(*paths, perform_removal=True, show_progress=False, **settings)


@pytest.mark.parametrize("first", [exact, fuzzy, lines])
@pytest.mark.parametrize("make", [exact, fuzzy, urls, lines])
def test_result_of_another_input_is_replaced_only_with_overwrite(tmp_path: Path, first: Any, make: Any) -> None:
    write_days(tmp_path)
    first(tmp_path, "day1/crawl").run(quiet())
    before = contents(tmp_path / "out", ["**/*"])
    with pytest.raises(OutputError) as caught:
        make(tmp_path, "day2/crawl").run(quiet())
    assert f"{tmp_path}/out: holds the result of another input: {tmp_path}/day1/crawl. " in str(caught.value)
    assert "--overwrite" in str(caught.value)
    assert contents(tmp_path / "out", ["**/*"]) == before
    make(tmp_path, "day2/crawl", overwrite=True).run(quiet())
    make(tmp_path, "day2/crawl", "whole").run(quiet())
    assert contents(tmp_path / "out", ["deduplicated/*", "*/*.parquet", "*.json"]) == contents(
        tmp_path / "whole", ["deduplicated/*", "*/*.parquet", "*.json"]
    )


def test_input_with_another_path_or_a_new_file_is_the_same_input(tmp_path: Path) -> None:
    write_days(tmp_path)
    exact(tmp_path, "day1/crawl").run(quiet())
    (tmp_path / "latest").symlink_to(tmp_path / "day1")
    for same in ("latest/crawl", "day1/crawl/*.jsonl", "day2/../day1/crawl"):
        exact(tmp_path, same).run(quiet())
    write_jsonl(tmp_path / "day1/crawl/part-1.jsonl", [{"id": "new", "text": "new"}])
    exact(tmp_path, "day1/crawl").run(quiet())
    assert "new" in ids(tmp_path / "out/deduplicated")


def test_documents_of_an_unrecorded_input_are_not_replaced(tmp_path: Path) -> None:
    write_days(tmp_path)
    write_jsonl(tmp_path / "out/deduplicated/mine.jsonl", [{"id": "mine", "text": "mine"}])
    with pytest.raises(OutputError, match="an input that is not recorded"):
        exact(tmp_path, "day1/crawl").run(quiet())
    assert ids(tmp_path / "out/deduplicated") == ["mine"]


def test_command_line_has_an_overwrite_option(tmp_path: Path) -> None:
    write_days(tmp_path)
    command = [sys.executable, "-m", "penstock", "dedup", "exact"]
    for arguments, code in ((["day1/crawl"], 0), (["day2/crawl"], 1), (["day2/crawl", "--overwrite"], 0)):
        done = subprocess.run(
            [*command, arguments[0], "out", *arguments[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
    assert ids(tmp_path / "out/deduplicated")[0].startswith("day2")


@pytest.mark.parametrize("make", [exact, fuzzy, urls, lines])
@pytest.mark.parametrize("output", ["link/crawl/out", "link/crawl", "inner"])
def test_output_that_links_into_the_input_is_rejected(tmp_path: Path, make: Any, output: str) -> None:
    write_days(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "day1")
    # A folder inside an output that does not overlap may be a link into the input.
    (tmp_path / "inner").mkdir()
    for name in ("deduplicated", "CutLines", "ExactDuplicateIds", "UrlDuplicateIds", "FuzzyDuplicateIds"):
        (tmp_path / "inner" / name).symlink_to(tmp_path / "day1/crawl")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(InputError, match=r"one is inside the other\. Give the output a folder of its own"):
        make(tmp_path, "day1/crawl", output, overwrite=True).run(quiet())
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("setting", ["cache_path", "index_path"])
def test_cache_and_index_inside_the_input_are_rejected(tmp_path: Path, setting: str) -> None:
    write_days(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "day1")
    with pytest.raises(InputError, match=f"{tmp_path}/link/crawl/x is inside .*day1/crawl, which is read"):
        exact(tmp_path, "day1/crawl", **{setting: str(tmp_path / "link/crawl/x")}).run(quiet())
    assert [path.name for path in (tmp_path / "day1/crawl").iterdir()] == ["part-0.jsonl"]


def test_removal_rejects_output_in_its_input_or_its_id_table(tmp_path: Path) -> None:
    write_days(tmp_path)
    exact(tmp_path, "day1/crawl", perform_removal=False).run(quiet())
    (tmp_path / "link").symlink_to(tmp_path)
    for output in ("link/day1/crawl", "link/out/ExactDuplicateIds"):
        before = sorted(str(path) for path in tmp_path.rglob("*"))
        with pytest.raises(PenstockError, match="Give the output a folder of its own"):
            TextDuplicatesRemovalWorkflow(
                str(tmp_path / "day1/crawl"),
                str(tmp_path / "out/ExactDuplicateIds"),
                str(tmp_path / output),
                "jsonl",
                id_generator_path=str(tmp_path / "out/exact_id_generator.json"),
                output_mode="overwrite",
            ).run(quiet())
        assert sorted(str(path) for path in tmp_path.rglob("*")) == before
