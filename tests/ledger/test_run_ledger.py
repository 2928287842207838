"""The ledger of a run is complete, deterministic, and stored in few files."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ledger_runs import fates, files_of, filters, run, write_documents

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, Resources, StreamingExecutor
from penstock.core.verdicts import Verdicts
from penstock.errors import InputError, OutputError
from penstock.ledger.query.export import export_parquet
from penstock.ledger.query.ledger import find_ledger
from penstock.ledger.store.fragment import restored_scores
from penstock.text import JsonlReader, JsonlWriter, ScoreFilter, WordCountFilter

Stage = ProcessingStage[Any, Any]


class PandasFilter(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A user-defined filter that records no verdicts."""

    name = "pandas_filter"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        frame = task.to_pandas()
        return DocumentBatch(task.dataset_name, frame[frame["text"].str.len() > 5])


class Splitter(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Turns each document into two."""

    name = "splitter"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        texts = [half for text in task.column("text").to_pylist() for half in (text, text)]
        return DocumentBatch(
            task.dataset_name, pa.table({"id": [f"half-{i}" for i in range(len(texts))], "text": texts})
        )


class Choosy(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Fails on one document."""

    name = "choosy"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if "0-4" in task.column("id").to_pylist():
            raise ValueError("not this one")
        return task


class Deadly(Choosy):
    """Kills its process on one document."""

    name = "deadly"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if "1-5" in task.column("id").to_pylist():
            os.kill(os.getpid(), signal.SIGSEGV)
        return task


EXPECTED = {
    **{f"{file}-{n}": "word_count" for file in (0, 1) for n in (0, 1)},
    **{f"{file}-{n}": "repeated_lines" for file in (0, 1) for n in (2, 5)},
    **{f"{file}-{n}": "kept" for file in (0, 1) for n in (3, 4)},
}


@pytest.mark.parametrize("inline", [True, False])
def test_every_document_has_an_outcome_with_scores_and_sizes(tmp_path: Path, inline: bool) -> None:
    ledger = run(tmp_path, filters(), inline=inline)
    assert fates(ledger) == EXPECTED
    decisions = next(ledger.shards())
    assert decisions.scores("word_count")[:6].tolist() == [0, 1, 4, 3, 4, 10]
    assert np.isnan(decisions.scores("repeated_lines")[0])
    assert decisions.sizes[:2].tolist() == [0, 4]


@pytest.mark.parametrize(("documents", "kind"), [(6, ".parquet"), (900, ".notes")])
def test_the_ledger_has_the_same_bytes_with_any_executor(tmp_path: Path, documents: int, kind: str) -> None:
    write_documents(tmp_path / "crawl", files=3, documents=documents)
    ledger = run(tmp_path, filters())
    first = files_of(ledger)
    assert [Path(name).suffix for name in first if name != "rules.json"] == [kind]
    assert len(fates(ledger)) == 3 * documents
    assert files_of(run(tmp_path, filters(), inline=False)) == first
    assert files_of(run(tmp_path, filters(), inline=False, cpus=2)) == first


def test_a_resumed_run_has_the_same_ledger_as_an_uninterrupted_one(tmp_path: Path) -> None:
    class StopAtSecond(Choosy):
        name = "stop_at_second"

        def process(self, task: DocumentBatch) -> DocumentBatch:
            if not (tmp_path / "go-on").exists() and "1-4" in task.column("id").to_pylist():
                raise KeyboardInterrupt
            return task

    stages = [*filters(), StopAtSecond()]
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stages, checkpoint_path=tmp_path / "state")
    assert len(fates(find_ledger(str(tmp_path / "clean")))) == 6
    (tmp_path / "go-on").touch()
    resumed = files_of(run(tmp_path, stages, checkpoint_path=tmp_path / "state"))
    assert files_of(run(tmp_path, stages)) == resumed


@pytest.mark.parametrize("documents", [6, 900])
def test_all_receipts_can_be_exported_as_parquet(tmp_path: Path, documents: int) -> None:
    write_documents(tmp_path / "crawl", documents=documents)
    ledger = run(tmp_path, filters())
    assert export_parquet(ledger, str(tmp_path / "receipts")) == (2 * documents, len(ledger.parts))
    table = pq.read_table(tmp_path / "receipts")
    by_id = dict(zip(table["id"].to_pylist(), table["dropped_by"].to_pylist(), strict=True))
    assert {name: fate or "kept" for name, fate in by_id.items()} == fates(ledger)
    assert table["score.word_count"].to_pylist()[:6] == [0, 1, 4, 3, 4, 10]
    with pytest.raises(OutputError, match="the folder is not empty"):
        export_parquet(ledger, str(tmp_path / "receipts"))


def test_many_small_tasks_leave_few_files(tmp_path: Path) -> None:
    write_documents(tmp_path / "crawl", files=40)
    ledger = run(tmp_path, filters())
    assert len(files_of(ledger)) == 2
    assert len(fates(ledger)) == 240


def test_documents_dropped_without_a_verdict_are_attributed_to_their_stage(tmp_path: Path) -> None:
    ledger = run(tmp_path, [PandasFilter(), *filters()])
    assert {fate for name, fate in fates(ledger).items() if name.endswith(("-0", "-1"))} == {"pandas_filter"}
    assert fates(ledger)["0-5"] == "repeated_lines"


def test_documents_made_by_a_stage_name_that_stage(tmp_path: Path) -> None:
    ledger = run(tmp_path, [ScoreFilter(WordCountFilter(min_words=2)), Splitter(), *filters()[1:]])
    assert {"half-0", "0-0"} <= set(fates(ledger))
    about = {name: info for part in ledger.parts for name, info in part.blocks.items()}
    assert sorted(info.get("made_by", "") for info in about.values()) == ["", "", "splitter", "splitter"]
    assert {info.get("remade_by") for info in about.values()} == {"splitter", None}


def test_a_failed_document_is_recorded_as_failed_and_not_as_a_verdict(tmp_path: Path) -> None:
    ledger = run(tmp_path, [*filters(), Choosy()], inline=False, config={"ignore_failures": True}, max_retries=0)
    assert fates(ledger) == {**EXPECTED, "0-4": "choosy"}
    assert [info["failed"] for part in ledger.parts for info in part.blocks.values() if "failed" in info] == [
        {"choosy": [4]}
    ]


def test_a_document_that_kills_its_worker_is_attributed_to_the_stage(tmp_path: Path) -> None:
    ledger = run(tmp_path, [Deadly(), *filters()], inline=False, config={"ignore_failures": True}, max_retries=0)
    assert fates(ledger) == {**EXPECTED, "1-5": "deadly"}


@pytest.mark.parametrize("inline", [True, False])
def test_several_pools_of_workers_write_one_ledger(tmp_path: Path, inline: bool) -> None:
    apart = ScoreFilter(WordCountFilter(min_words=4)).with_(name="long_enough", resources=Resources(cpus=2))
    ledger = run(tmp_path, [*filters(), apart], inline=inline, cpus=2)
    assert len({part.pool for part in ledger.parts}) == 3
    assert fates(ledger) == {**EXPECTED, "0-3": "long_enough", "1-3": "long_enough"}


def test_a_stage_may_record_its_own_verdicts(tmp_path: Path) -> None:
    class Language(ProcessingStage[DocumentBatch, DocumentBatch]):
        name = "language"

        def process(self, task: DocumentBatch) -> DocumentBatch:
            assert task.source_rows is not None
            kept = np.arange(task.num_items) % 2 == 0
            self.record(Verdicts("language", task.source_rows, kept, kept * 0.5, {"least": 0.25}))
            return task.select(np.flatnonzero(kept))

    ledger = run(tmp_path, [Language()])
    assert fates(ledger)["0-1"] == "language"
    decisions = next(ledger.shards())
    assert decisions.scores("language")[:2].tolist() == [0.5, 0.0]


def test_filters_with_the_same_name_are_numbered(tmp_path: Path) -> None:
    two = ScoreFilter([WordCountFilter(min_words=1), WordCountFilter(min_words=2)])
    assert {"word_count", "word_count#2"} <= set(fates(run(tmp_path, [two])).values())


@pytest.mark.parametrize("executor", [InlineExecutor, StreamingExecutor])
def test_ledger_false_removes_the_ledger_of_an_earlier_run(tmp_path: Path, executor: Any) -> None:
    run(tmp_path, filters())
    stages = [JsonlReader(tmp_path / "crawl"), *filters(), JsonlWriter(tmp_path / "clean")]
    Pipeline("p", stages=stages).run(executor(show_progress=False, ledger=False))
    with pytest.raises(InputError, match="kept no ledger"):
        find_ledger(str(tmp_path / "clean"))


def test_scores_stored_in_32_bits_are_restored_to_their_decimal_values() -> None:
    written = np.array([0.1, 0.2, 0.3, 0.7, 0.85, 1e-7, 0.0, 12345.0, -0.25, np.nan, np.inf])
    np.testing.assert_array_equal(restored_scores(written.astype(np.float32)), written)
