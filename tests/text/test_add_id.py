"""AddId: ids depend on the input, and replace existing ones only if requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock import InlineExecutor, Pipeline, ProcessingStage
from penstock.errors import StageError
from penstock.testing import assert_stage_contract, make_batch, run_stage
from penstock.text import AddId, JsonlReader, ParquetWriter


def ids(folder: Path, output: str) -> list[str]:
    stages: list[ProcessingStage[Any, Any]] = [
        JsonlReader(folder / "in"),
        AddId("uid", id_prefix="web"),
        ParquetWriter(folder / output),
    ]
    Pipeline("ids", stages=stages).run(InlineExecutor(show_progress=False))
    return sorted(pq.read_table(folder / output)["uid"].to_pylist())


def test_ids_are_unique_in_the_run_and_the_same_in_the_next(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    first = ids(tmp_path, "one")
    assert len(set(first)) == 6
    assert all(given.startswith("web_0_") and given.endswith(("_0", "_1")) for given in first)
    assert ids(tmp_path, "two") == first


def test_existing_ids_are_replaced_only_if_requested() -> None:
    with pytest.raises(StageError, match=r"column 'id' exists already.* overwrite=True"):
        run_stage(AddId("id"), make_batch(["a"]))
    [batch] = run_stage(AddId("id", overwrite=True), make_batch(["a", "b"]))
    assert batch.to_pyarrow()["id"].to_pylist() == ["0_0_0", "0_0_1"]  # type: ignore[attr-defined]
    assert_stage_contract(AddId("uid"), make_batch(["a", None]))
