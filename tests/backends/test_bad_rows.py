"""Rows on which a stage hangs, crashes or fails are found, named and counted, and no other row is lost."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from misbehaving import Picky
from places import Docs, Place, somewhere

from penstock import DocumentBatch
from penstock.errors import LostRowsError, StageError
from penstock.testing import ListSource, make_batch
from penstock.text import JsonlReader, JsonlWriter

anywhere = somewhere("inline", "local", "ray")
workers = somewhere("local", "ray")
local = somewhere("local")


def write_files(folder: Path, *files: list[str]) -> str:
    folder.mkdir(exist_ok=True)
    for number, texts in enumerate(files):
        lines = [json.dumps({"id": f"{number}-{row}", "text": text}) + "\n" for row, text in enumerate(texts)]
        (folder / f"{number}.jsonl").write_text("".join(lines))
    return str(folder)


def written(folder: Path) -> list[str]:
    return [
        json.loads(line)["text"] for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()
    ]


def counts(place: Place, stage: str) -> tuple[int, int, int, int]:
    assert place.summary is not None
    [counters] = [counters for counters in place.summary.counters if counters.stage == stage]
    return counters.items_in, counters.items_out, counters.dropped, counters.failed


class Hang(Docs):
    name = "hang"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if "poison" in task.to_pyarrow()["text"].to_pylist():
            threading.Event().wait()
        return task


def test_row_that_hangs_loses_only_that_row_of_its_file(workers: Place) -> None:
    """The stage is in the same pool as the reader, so the input of a worker is only the name of a file."""
    texts = [f"text {row}" for row in range(40)]
    texts[-1] = "poison"
    source = write_files(workers.folder / "in", texts)
    stages = [JsonlReader(source), Hang(), JsonlWriter(str(workers.folder / "out"))]
    settings: dict[str, Any] = {"config": {"ignore_failures": True}, "max_failed": 10, "max_retries": 0}
    workers.run(stages, task_timeout_s=1.5 if workers.kind == "local" else 4.0, **settings)
    assert written(workers.folder / "out") == texts[:-1]
    [letter] = workers.letters()
    assert (letter["stage"], letter["source"], letter["position"]) == ("hang", f"{source}/0.jsonl", 39)
    assert "took longer than task_timeout_s" in letter["reason"]
    assert '"poison"' in letter["excerpt"]
    assert counts(workers, "hang") == (40, 39, 0, 1)


def two_files_with_poison() -> list[list[str]]:
    return [["poison" if row % 3 == 0 else f"text {file}-{row}" for row in range(6)] for file in range(2)]


@pytest.mark.parametrize(("what", "ledger"), [("exit", True), ("segfault", False), ("kill", False)])
def test_every_row_that_kills_its_worker_is_in_the_dead_letters(local: Place, what: str, ledger: bool) -> None:
    files = two_files_with_poison()
    source = write_files(local.folder / "in", *files)
    stages = [JsonlReader(source, blocksize="1MB"), Picky(what), JsonlWriter(str(local.folder / "out"))]
    local.run(stages, config={"ignore_failures": True}, max_failed=4, max_retries=0, ledger=ledger)
    assert written(local.folder / "out") == [text for texts in files for text in texts if text != "poison"]
    letters = sorted((letter["source"], letter["position"], letter["stage"]) for letter in local.letters())
    assert letters == [(f"{source}/{file}.jsonl", row, "picky") for file in range(2) for row in (0, 3)]
    assert all('"poison"' in letter["excerpt"] for letter in local.letters())
    assert all(Path(letter["reproduce"].split()[-1]).exists() for letter in local.letters())
    assert counts(local, "picky") == (12, 8, 0, 4)
    assert local.summary is not None
    assert "Read 12 documents, kept 8 (66.7%), dropped 0, failed 4." in local.summary._closing_lines()


def test_rows_that_kill_their_worker_count_towards_max_failed(local: Place) -> None:
    source = write_files(local.folder / "in", *two_files_with_poison())
    stages = [JsonlReader(source, blocksize="1MB"), Picky("exit")]
    with pytest.raises(StageError, match=r"^4 input items could not be processed"):
        local.run(stages, config={"ignore_failures": True}, max_failed=3, max_retries=0)


def test_rows_that_failed_before_a_resume_are_still_failed_after_it(local: Place) -> None:
    source = write_files(local.folder / "in", ["good", "poison"], ["fine"])
    stages = [JsonlReader(source), Picky("raise"), JsonlWriter(str(local.folder / "out"))]
    for times in ("The first", "1 of them failed in the run that this one resumes"):
        with pytest.raises(StageError, match=r"^1 input item could not be processed") as caught:
            local.run(stages, checkpoint=local.folder / "state", max_retries=0)
        assert times in str(caught.value)
    local.run(stages, checkpoint=local.folder / "state", config={"ignore_failures": True})
    assert sorted(written(local.folder / "out")) == ["fine", "good"]


def test_many_bad_rows_in_one_batch_lose_no_good_row(local: Place) -> None:
    texts = ["poison" if row % 2 == 0 or row < 60 else f"text {row}" for row in range(400)]
    results = local.run([ListSource([make_batch(texts)]), Picky("raise")], config={"ignore_failures": True})
    assert results[0].to_pyarrow()["text"].to_pylist() == [text for text in texts if text != "poison"]
    assert len(local.letters()) == texts.count("poison")


class Evaporating(DocumentBatch):
    """Report one row less on each access, as if rows were lost between stages."""

    @property
    def num_items(self) -> int:
        left = self._metadata["left"] = self._metadata.get("left", 100) - 1
        return int(left)


class Evaporate(Docs):
    name = "evaporate"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return Evaporating(task.dataset_name, task.to_pyarrow())


class Keep(Docs):
    name = "keep"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return DocumentBatch(task.dataset_name, task.to_pyarrow())


def test_run_that_loses_rows_between_stages_fails_and_names_the_stages(anywhere: Place) -> None:
    with pytest.raises(LostRowsError, match=r"'evaporate' gave \d+ rows and \d+ reached 'keep'") as caught:
        anywhere.run([ListSource([make_batch(["a", "b"])]), Evaporate(), Keep()])
    assert "Please report it" in str(caught.value)


class Misspelt(Docs):
    name = "misspelt"

    def __init__(self, folder: Path, passes: str = "nothing") -> None:
        self.folder, self.passes = folder, passes

    def process(self, task: DocumentBatch) -> DocumentBatch:
        with (self.folder / "calls").open("a") as stream:
            stream.write("called ")
        if self.passes in task.to_pyarrow()["text"].to_pylist()[0]:
            return task
        return DocumentBatch(task.dataset_name, task.to_pyarrow().drop_columns(["txet"]))


LINE = Misspelt.process.__code__.co_firstlineno + 5


def bad_files(place: Place, files: int = 4) -> str:
    return write_files(place.folder / "in", *([f"text {file}-{row}" for row in range(150)] for file in range(files)))


def test_stage_that_fails_on_every_row_stops_the_run_and_names_line_and_row(anywhere: Place) -> None:
    source = bad_files(anywhere)
    with pytest.raises(StageError) as caught:
        anywhere.run([JsonlReader(source), Misspelt(anywhere.folder)])
    message = str(caught.value)
    assert "stage 'misspelt'" in message
    assert "KeyError" in message
    assert f"{__file__}, line {LINE}, in process: return DocumentBatch(task.dataset_name, task" in message
    assert f"The row: {source}/" in message
    assert ".jsonl, document 1: {" in message
    calls = len((anywhere.folder / "calls").read_text().split())
    assert calls < 150, "only a part of the rows was tried"
    if anywhere.kind != "inline":
        assert "failed on each of its first 150 rows, in the same way; the run was stopped" in message
        assert all(letter["stage"] == "misspelt" for letter in anywhere.letters())


def test_run_with_ignored_failures_stops_when_no_row_ever_passed(local: Place) -> None:
    source = bad_files(local)
    with pytest.raises(StageError, match="failed on each of its first 300 rows"):
        local.run([JsonlReader(source), Misspelt(local.folder)], config={"ignore_failures": True})


def test_run_with_ignored_failures_continues_when_some_row_passed(local: Place) -> None:
    source = bad_files(local)
    stages = [JsonlReader(source), Misspelt(local.folder, passes="text 0-"), JsonlWriter(str(local.folder / "out"))]
    local.run(stages, config={"ignore_failures": True}, cpus=1)
    assert len(written(local.folder / "out")) == 150
    assert len(local.letters()) == 450
