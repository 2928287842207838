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
from penstock.backends.local.fork_server import _package_preloads
from penstock.backends.local.stage_declarations import is_reusable, modules_to_preload
from penstock.core.stage import ProcessingStage
from penstock.dedup.components import ConnectCandidates
from penstock.dedup.exact import FindExactDuplicates
from penstock.plan.plan import Pool
from penstock.text import JsonlReaderStage, JsonlWriter, ParquetReaderStage, ParquetWriter, ScoreFilter, WordCountFilter


class Mine(ProcessingStage[Any, Any]):
    pass


class MyWriter(ParquetWriter):
    """Not reusable, although its base class is: it may leave anything behind in its process."""


EXACT, KERNELS, JSON = "penstock.dedup.preload_exact", "penstock.dedup.preload", "penstock.text.io.preload_json"
PARQUET = ("penstock.text.io.parquet", "penstock.text.io.row_groups")
FIND = FindExactDuplicates("found", "hashed", 1)
WRITE = ParquetWriter("out")


@pytest.mark.parametrize(
    ("pools", "modules"),
    [
        ([[ParquetReaderStage(), WRITE], [FIND]], {*PARQUET, EXACT}),
        ([[ParquetReaderStage(), JsonlWriter("out")], [FIND]], {*PARQUET, JSON, EXACT}),
        ([[JsonlReaderStage(), WRITE]], {JSON, *PARQUET}),
        ([[ConnectCandidates("connected", 1)], [FIND]], {KERNELS, EXACT}),
        ([[ParquetReaderStage(), ScoreFilter(WordCountFilter()), WRITE]], None),
        ([[ParquetReaderStage(), WRITE], [Mine()]], None),
        ([[ParquetReaderStage(), MyWriter("out")]], None),
        ([[FIND.with_(resources=Resources(gpus=1))]], None),
    ],
)
def test_stages_declare_what_the_fork_server_preloads_and_whether_processes_are_reused(
    pools: list[list[Any]], modules: set[str] | None
) -> None:
    made = [Pool("pool", (), tuple(steps), steps[0].resources, 1, None, "") for steps in pools]
    found = modules_to_preload(made)
    assert (None if found is None else {*found}) == modules
    assert all(is_reusable(pool) for pool in made) == (modules is not None)


def test_exact_deduplication_of_parquet_files_imports_nothing_beyond_the_preload(tmp_path: Path) -> None:
    """Run it in one process that starts like a worker: each module loaded later would be loaded by every worker."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": ["a", "b", "a"]}), tmp_path / "in/a.parquet")
    script = f"""
        import json, sys
        import penstock.backends.local.preloaded, penstock.dedup.preload_exact
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


def test_every_preload_module_can_be_imported() -> None:
    """The fork server ignores import errors, so a mistake would only show as workers that start slowly."""
    names = [*_package_preloads(), EXACT, JSON, *PARQUET]
    assert {KERNELS, "penstock.text.preload"} <= {*names}
    script = f"from importlib import import_module\nfor name in {names!r}: import_module(name)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
