"""The fork server preloads only the modules that the stages of a run need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import Resources
from penstock.backends.local.fork_server import Loaded
from penstock.backends.local.own_stages import may_stay, needed_by
from penstock.core.stage import ProcessingStage
from penstock.dedup.exact import FindExactDuplicates
from penstock.plan.plan import Pool
from penstock.text import JsonlReaderStage, JsonlWriter, ParquetReaderStage, ParquetWriter, ScoreFilter, WordCountFilter


class Mine(ProcessingStage[Any, Any]):
    pass


FIND = FindExactDuplicates("found", "hashed", 1)
WRITE = ParquetWriter("out")


@pytest.mark.parametrize(
    ("pools", "loaded"),
    [
        ([[ParquetReaderStage(), WRITE], [FIND]], Loaded.ARROW),
        ([[ParquetReaderStage(), JsonlWriter("out")], [FIND]], Loaded.KERNELS),
        ([[JsonlReaderStage(), WRITE]], Loaded.KERNELS),
        ([[ParquetReaderStage(), ScoreFilter(WordCountFilter()), WRITE]], Loaded.PANDAS),
        ([[ParquetReaderStage(), WRITE], [Mine()]], Loaded.PANDAS),
        ([[FIND.with_(resources=Resources(gpus=1))]], Loaded.PANDAS),
    ],
)
def test_fork_server_preloads_what_the_most_demanding_stage_needs(pools: list[list[Any]], loaded: Loaded) -> None:
    made = [Pool("pool", (), tuple(steps), steps[0].resources, 1, None, "") for steps in pools]
    assert needed_by(made) == loaded
    assert all(may_stay(pool) for pool in made) == (loaded < Loaded.PANDAS)


def test_exact_deduplication_of_parquet_files_imports_nothing_beyond_the_preload(tmp_path: Path) -> None:
    """Run it in one process that starts like a worker: each module loaded later would be loaded by every worker."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": ["a", "b", "a"]}), tmp_path / "in/a.parquet")
    script = f"""
        import json, sys
        import penstock.backends.local.preloaded
        from penstock import InlineExecutor
        from penstock.dedup.exact_workflow import ExactDeduplicationWorkflow
        known = set(sys.modules)
        workflow = ExactDeduplicationWorkflow({str(tmp_path / "out")!r}, {str(tmp_path / "in")!r}, perform_removal=True,
                                              index_path={str(tmp_path / "index")!r}, show_progress=False)
        removed = workflow.run(InlineExecutor(show_progress=False)).get_metadata("num_duplicates")
        loaded = set(sys.modules)
        print(json.dumps([removed, sorted({{"numba", "pandas"}} & loaded), sorted(
            name for name in loaded - known if name.startswith(("numpy", "pyarrow", "fsspec", "penstock.dedup"))
        )]))
    """
    lines = "\n".join(line.removeprefix("        ") for line in script.splitlines())
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [1, [], []]
