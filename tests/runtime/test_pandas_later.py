"""Pandas is imported only in processes whose stages may need it; there Arrow recognizes its data."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def run(script: str, folder: Path) -> str:
    (folder / "script.py").write_text(textwrap.dedent(script))
    done = subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrow_does_not_import_pandas_until_it_is_expected(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    said = run(
        """
        import sys
        import pyarrow as pa
        from penstock.runtime.pandas_later import expect_pandas, put_off_pandas

        put_off_pandas()
        pa.table({"a": pa.array([1]), "b": [pa.scalar("x")]})
        print("pandas" in sys.modules)
        import pandas as pd
        expect_pandas()
        print(pa.array(pd.Series([1.0, float("nan")])).null_count)
        """,
        tmp_path,
    )
    assert said.split() == ["False", "1"]


def test_arrow_still_makes_a_data_frame_on_request(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    said = run(
        """
        import pyarrow as pa
        from penstock.runtime.pandas_later import put_off_pandas

        put_off_pandas()
        print(pa.table({"a": [1, 2]}).to_pandas()["a"].sum())
        """,
        tmp_path,
    )
    assert said.split() == ["3"]


def test_user_stage_after_a_deduplication_can_pass_pandas_data_to_arrow(tmp_path: Path) -> None:
    """The deduplication starts the fork server, without pandas."""
    pytest.importorskip("pandas")
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": str(number), "text": "the same"}) for number in range(3)]
    (tmp_path / "in/a.jsonl").write_text("\n".join(lines))
    said = run(
        """
        import pyarrow as pa
        from penstock import DocumentBatch, Pipeline, StreamingExecutor, processing_stage
        from penstock.dedup import ExactDeduplicationWorkflow
        from penstock.testing import make_batch

        @processing_stage(name="missing")
        def missing(task: DocumentBatch) -> DocumentBatch:
            import pandas as pd

            return DocumentBatch("", pa.table({"n": pa.array(pd.Series([1.0, float("nan")]))}))

        if __name__ == "__main__":
            quiet = {"show_progress": False}
            workflow = ExactDeduplicationWorkflow("out", "in", input_filetype="jsonl", perform_removal=True, **quiet)
            print(workflow.run(StreamingExecutor(**quiet)).metadata["num_duplicates"])
            [task] = Pipeline("p", stages=[missing]).run(StreamingExecutor(**quiet), [make_batch(["a"])])
            print(task.to_pyarrow()["n"].null_count)
        """,
        tmp_path,
    )
    assert said.split() == ["2", "1"]
