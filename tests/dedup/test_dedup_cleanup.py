"""Repeating a run gives the same result if it was killed during cleanup or if intermediate files are missing."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from corpora import contents, quiet, write_corpus

from penstock.dedup import (
    ExactDeduplicationWorkflow,
    FuzzyDeduplicationWorkflow,
    LineDeduplicationWorkflow,
    TextDuplicatesRemovalWorkflow,
    UrlDeduplicationWorkflow,
)
from penstock.dedup.work_folder import WorkFolder

RESULT = ("deduplicated/*.jsonl", "*DuplicateIds/*", "Cut*/*", "*.jsonl", "*.json")


def make(kind: str, folder: Path, output: str = "out", **settings: Any) -> Any:
    out, source = str(folder / output), str(folder / "in")
    given: dict[str, Any] = {"input_filetype": "jsonl", "input_blocksize": "2KB", "show_progress": False, **settings}
    match kind:
        case "exact" | "exact with index":
            given |= {"index_path": f"{out}-index"} if "index" in kind else {}
            return ExactDeduplicationWorkflow(out, source, perform_removal=True, **given)
        case "fuzzy" | "fuzzy with index" | "fuzzy by signature":
            given |= {"index_path": f"{out}-index"} if "index" in kind else {}
            given |= {"verify": "signature"} if "signature" in kind else {}
            cache = f"{out}/_penstock/dedup"
            return FuzzyDeduplicationWorkflow(cache, out, source, perform_removal=True, **given)
        case "urls":
            return UrlDeduplicationWorkflow(out, source, url_field="date", **given)
        case "lines":
            return LineDeduplicationWorkflow(out, source, max_documents=1, **given)
    assert kind == "removal"
    return TextDuplicatesRemovalWorkflow(
        source,
        str(folder / "found/ExactDuplicateIds"),
        out,
        "jsonl",
        id_generator_path=str(folder / "found/exact_id_generator.json"),
    )


KINDS = ["exact", "exact with index", "fuzzy", "fuzzy with index", "fuzzy by signature", "urls", "lines", "removal"]


def prepare(kind: str, folder: Path) -> None:
    write_corpus(folder)
    if kind == "removal":
        ExactDeduplicationWorkflow(str(folder / "found"), str(folder / "in"), "jsonl", show_progress=False).run(quiet())


def everything(folder: Path) -> dict[str, bytes]:
    """Return the files of the result and, if there is one, of the index."""
    return contents(folder, RESULT) | contents(folder.parent / f"{folder.name}-index", ["**/*"])


@pytest.mark.parametrize("kind", KINDS)
def test_result_is_the_same_if_any_files_of_the_work_folder_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    prepare(kind, tmp_path)
    make(kind, tmp_path, "whole").run(quiet())
    with monkeypatch.context() as patch:
        patch.setattr(WorkFolder, "clear", lambda _: None)
        make(kind, tmp_path).run(quiet())
    ended = tmp_path / "out/_penstock" / ("removal" if kind == "removal" else "dedup")
    shutil.copytree(ended, tmp_path / "ended")
    files = sorted(path.relative_to(ended) for path in ended.rglob("*") if path.is_file())
    draw = random.Random(1)
    for count in (1, 1, 2, 3, 5, 8, 13):
        shutil.rmtree(ended, ignore_errors=True)
        shutil.copytree(tmp_path / "ended", ended)
        for file in draw.sample(files, min(len(files), count)):
            (ended / file).unlink()
        # Another memory budget would lead to another number of partitions.
        settings = {} if kind == "removal" else {"memory_budget": draw.choice(["1GB", "100KB"])}
        make(kind, tmp_path, **settings).run(quiet())
        assert everything(tmp_path / "out") == everything(tmp_path / "whole") | id_generators(tmp_path)
        assert not list(tmp_path.rglob("_penstock/dedup"))


def id_generators(folder: Path) -> dict[str, bytes]:
    return contents(folder / "out", ["*.json"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before anything is removed", "after some files"])
def test_run_killed_while_removing_its_work_folder_can_be_repeated(tmp_path: Path, kind: str, when: str) -> None:
    prepare(kind, tmp_path)
    make(kind, tmp_path, "whole").run(quiet())
    script = f"""
        import os, shutil, signal, sys
        from pathlib import Path
        sys.path.insert(0, r"{Path(__file__).parent}")
        from corpora import quiet
        from test_dedup_cleanup import make
        def killed(folder, *_, **__):
            if {when == "after some files"}:
                files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
                for path in files[::2]:
                    path.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        workflow = make("{kind}", Path(r"{tmp_path}"))
        shutil.rmtree = killed
        workflow.run(quiet())
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    assert list((tmp_path / "out/_penstock").rglob("*.removed-*")), "it was renamed before anything was removed"
    make(kind, tmp_path).run(quiet())
    assert everything(tmp_path / "out") == everything(tmp_path / "whole") | id_generators(tmp_path)
    assert not list(tmp_path.rglob("*.removed-*"))
