"""An interrupted deduplication resumes, and has the same result as an uninterrupted one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from corpora import contents, edited, essay, quiet, read_documents, write_jsonl

from penstock import DocumentBatch, StreamingExecutor
from penstock.dedup import (
    LineDeduplicationWorkflow,
    TextDuplicatesRemovalWorkflow,
    candidates,
    exact,
    signing,
)
from penstock.dedup.candidates import FindCandidates
from penstock.dedup.components import ConnectCandidates
from penstock.dedup.duplicate_table import WriteDuplicateTable
from penstock.dedup.exact import FindExactDuplicates
from penstock.dedup.exact_workflow import ExactDeduplicationWorkflow
from penstock.dedup.fuzzy import FuzzyDeduplicationWorkflow
from penstock.dedup.keep_policy import KeepPolicy
from penstock.dedup.lines import CutPassages
from penstock.dedup.removal import RemoveDocuments
from penstock.dedup.verify import CompareCandidates, GatherTexts
from penstock.errors import InputError, OutputError, PenstockError

# Small, so that every pass has several tasks.
BLOCKSIZE = "5KB"


def write_corpus(folder: Path) -> Path:
    for number in range(3):
        texts = [essay(n) if number == 0 else edited(essay(n), number) for n in range(10 * number, 10 * number + 8)]
        write_jsonl(
            folder / f"in/{number}.jsonl", [{"id": f"{number}-{n}", "text": t} for n, t in enumerate(texts * 2)]
        )
    return folder / "in"


def fuzzy(folder: Path, output: str = "out", **settings: Any) -> FuzzyDeduplicationWorkflow:
    return FuzzyDeduplicationWorkflow(
        str(folder / "cache"), str(folder / output), str(folder / "in"), "jsonl",
        perform_removal=True, show_progress=False, **{"input_blocksize": BLOCKSIZE, **settings},
    )  # fmt: skip


def exactly(folder: Path, output: str = "out", **settings: Any) -> ExactDeduplicationWorkflow:
    return ExactDeduplicationWorkflow(
        str(folder / output), str(folder / "in"), "jsonl",
        perform_removal=True, show_progress=False, **{"input_blocksize": BLOCKSIZE, **settings},
    )  # fmt: skip


def stop_at(monkeypatch: pytest.MonkeyPatch, stage: type[Any], call: int = 2) -> None:
    """Make a stage raise at its n-th task."""
    done: Callable[..., Any] = stage.process
    calls = iter(range(1, 10_000))

    def process(self: Any, task: Any) -> Any:
        if next(calls) == call:
            raise RuntimeError("stopped here")
        return done(self, task)

    monkeypatch.setattr(stage, "process", process)


def forbid(monkeypatch: pytest.MonkeyPatch, module: Any, function: str) -> None:
    """Fail the test if completed work is repeated."""

    def again(*_: object) -> None:
        raise AssertionError(f"{function} was called again")

    monkeypatch.setattr(module, function, again)


STAGES = [(FindExactDuplicates, 2), (FindCandidates, 2), (ConnectCandidates, 1), (GatherTexts, 2), (CompareCandidates, 2),
          (WriteDuplicateTable, 1), (RemoveDocuments, 2)]  # fmt: skip


@pytest.mark.parametrize(("stage", "call"), STAGES, ids=lambda value: getattr(value, "name", str(value)))
def test_completed_work_is_not_repeated_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: type[Any], call: int
) -> None:
    write_corpus(tmp_path)
    fuzzy(tmp_path, "whole").run(quiet())
    with monkeypatch.context() as patch:
        stop_at(patch, stage, call)
        with pytest.raises(PenstockError, match="stopped here"):
            fuzzy(tmp_path).run(quiet())
    with monkeypatch.context() as patch:
        forbid(patch, signing, "text_hashes")
        if stage not in (FindExactDuplicates, FindCandidates, ConnectCandidates):
            forbid(patch, exact, "exact_duplicates")
            forbid(patch, candidates, "candidate_pairs")
        fuzzy(tmp_path, memory_budget="50KB").run(quiet())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert not list((tmp_path / "cache").iterdir())


def test_exact_deduplication_resumes_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(tmp_path)

    exactly(tmp_path, "whole").run(quiet())
    with monkeypatch.context() as patch:
        stop_at(patch, FindExactDuplicates)
        with pytest.raises(PenstockError, match="stopped here"):
            exactly(tmp_path).run(quiet())
    with monkeypatch.context() as patch:
        forbid(patch, exact, "text_hashes")
        exactly(tmp_path).run(quiet())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_stopped_run_says_how_to_resume_and_resumed_run_leaves_no_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path)
    workflow = ExactDeduplicationWorkflow(str(tmp_path / "out"), str(tmp_path / "in"), "jsonl", show_progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(WriteDuplicateTable, "process", lambda *_: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            workflow.run(quiet())
    assert "Run it again to resume: completed work is not repeated." in capsys.readouterr().err
    assert (tmp_path / "out/_penstock/dedup").exists()
    (tmp_path / "out/_penstock/dedup/of-other-files").mkdir()
    with monkeypatch.context() as patch:
        forbid(patch, exact, "text_hashes")
        workflow.run(quiet())
    assert not (tmp_path / "out/_penstock").exists()


@dataclass(frozen=True)
class Interrupts(KeepPolicy):
    """A keep policy that sends SIGINT (Ctrl-C) the first time it is called."""

    driver: int = 0
    marker: str = ""

    def ranks(self, batch: DocumentBatch, texts: pa.ChunkedArray) -> npt.NDArray[np.float64]:
        if not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(self.driver, signal.SIGINT)
        return super().ranks(batch, texts)


@pytest.mark.parametrize("workflow", ["exact", "fuzzy"])
def test_run_resumed_after_ctrl_c_has_the_same_result(tmp_path: Path, workflow: str) -> None:
    write_corpus(tmp_path)
    script = f"""
        import os, sys
        sys.path.insert(0, r"{Path(__file__).parent}")
        from penstock import StreamingExecutor
        from test_dedup_resume import Interrupts, exactly, fuzzy
        from pathlib import Path
        workflow = {{"exact": exactly, "fuzzy": fuzzy}}["{workflow}"](Path(r"{tmp_path}"), input_blocksize="1KB")
        workflow.keep = Interrupts(driver=os.getpid(), marker=r"{tmp_path}/pressed")
        workflow.run(StreamingExecutor(show_progress=False, cpus=2))
    """
    make: Any = {"exact": exactly, "fuzzy": fuzzy}[workflow]
    stopped = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert "Run it again to resume" in stopped.stderr
    assert not list((tmp_path / "out").glob("*DuplicateIds/*")), "nothing is concluded from a part"
    keep = Interrupts(driver=0, marker=str(tmp_path / "pressed"))
    again = make(tmp_path, input_blocksize="1KB")
    again.keep = keep
    again.run(quiet())
    make(tmp_path, "whole", input_blocksize="1KB").run(quiet())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("blocksize", [None, "20KB"])
@pytest.mark.parametrize("workflow", ["exact", "fuzzy"])
def test_repaired_file_is_included_when_the_run_resumes(tmp_path: Path, workflow: str, blocksize: str | None) -> None:
    write_corpus(tmp_path)
    make = partial({"exact": exactly, "fuzzy": fuzzy}[workflow], input_blocksize=blocksize)
    make(tmp_path, "whole").run(quiet())
    whole = (tmp_path / "in/1.jsonl").read_bytes()
    (tmp_path / "in/1.jsonl").write_bytes(b"?" * len(whole))
    with pytest.raises(PenstockError, match=r"1\.jsonl"):
        make(tmp_path).run(StreamingExecutor(show_progress=False, cpus=2))
    (tmp_path / "in/1.jsonl").write_bytes(whole)
    make(tmp_path).run(quiet())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("cache", [None, "cache"])
def test_concurrent_run_in_the_same_folder_is_rejected(tmp_path: Path, cache: str | None) -> None:
    write_corpus(tmp_path)
    settings = {"cache_path": str(tmp_path / cache)} if cache is not None else {}
    script = f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, r"{Path(__file__).parent}")
        from test_dedup_resume import WriteDuplicateTable, exactly, quiet
        def wait(*_):
            print("waits", flush=True)
            sys.stdin.read()
        WriteDuplicateTable.process = wait
        exactly(Path(r"{tmp_path}"), **{settings}).run(quiet())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"waits\n"
        with pytest.raises(OutputError, match=f"another run is at work there: process {other.pid} on "):
            exactly(tmp_path, **settings).run(quiet())
        other.kill()
    exactly(tmp_path, **settings).run(quiet())
    exactly(tmp_path, "whole").run(quiet())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_run_with_other_parameters_does_not_resume_from_existing_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path)
    with monkeypatch.context() as patch:
        stop_at(patch, WriteDuplicateTable, 1)
        with pytest.raises(PenstockError, match="stopped here"):
            fuzzy(tmp_path, similarity_threshold=1.0).run(quiet())
    fuzzy(tmp_path).run(quiet())
    fuzzy(tmp_path, "whole").run(quiet())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@dataclass(frozen=True)
class DiesOnce(KeepPolicy):
    """A keep policy that kills its worker the first time it is called."""

    marker: str = ""

    def ranks(self, batch: DocumentBatch, texts: pa.ChunkedArray) -> npt.NDArray[np.float64]:
        marker = Path(self.marker)
        if not marker.exists():
            marker.touch()
            os._exit(9)
        return super().ranks(batch, texts)


def test_killed_worker_does_not_change_the_result(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    fuzzy(tmp_path, "whole").run(quiet())
    workflow = fuzzy(tmp_path)
    workflow.keep = DiesOnce(marker=str(tmp_path / "died"))
    workflow.run(StreamingExecutor(show_progress=False, cpus=2))
    assert (tmp_path / "died").exists()
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@dataclass(frozen=True)
class FailsOn(KeepPolicy):
    """A keep policy that fails, or kills its worker, whenever a batch contains a certain text."""

    text: str = ""
    dies: bool = False

    def ranks(self, batch: DocumentBatch, texts: pa.ChunkedArray) -> npt.NDArray[np.float64]:
        if self.text in texts.to_pylist():
            if self.dies:
                os._exit(9)
            raise ValueError("this one")
        return super().ranks(batch, texts)


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("workflow", ["exact", "fuzzy"])
def test_search_for_the_failing_row_does_not_lose_other_rows(tmp_path: Path, workflow: str, dies: bool) -> None:
    documents = [{"id": str(n), "text": essay(n % 40)} for n in range(80)]
    write_jsonl(tmp_path / "in/a.jsonl", [*documents[:57], {"id": "bad", "text": essay(1000)}, *documents[57:]])
    make: Any = {"exact": exactly, "fuzzy": fuzzy}[workflow]
    blamed = make(tmp_path, input_blocksize="1MB")
    blamed.keep = FailsOn(text=essay(1000), dies=dies)
    with pytest.raises(PenstockError, match=r"^1 input item could not be processed"):
        blamed.run(StreamingExecutor(show_progress=False, cpus=2))
    kept = read_documents(tmp_path / "out/deduplicated")
    assert [document["id"] for document in kept] == [*(str(n) for n in range(40)), "bad"]


def test_killed_run_leaves_no_partial_files(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    fuzzy(tmp_path, "whole").run(quiet())
    script = f"""
        import os
        from penstock import InlineExecutor
        from penstock.dedup.fuzzy import FuzzyDeduplicationWorkflow
        from penstock.dedup.verify import CompareCandidates
        CompareCandidates._removed = lambda *_: os._exit(9)
        FuzzyDeduplicationWorkflow(r"{tmp_path}/cache", r"{tmp_path}/out", r"{tmp_path}/in", "jsonl", "{BLOCKSIZE}",
                                   perform_removal=True, show_progress=False).run(InlineExecutor(show_progress=False))
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert killed.returncode == 9
    assert list((tmp_path / "cache").iterdir())
    fuzzy(tmp_path).run(quiet())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    "executor", [quiet, lambda: StreamingExecutor(show_progress=False, cpus=2)], ids=["inline", "streaming"]
)
def test_run_fails_if_a_source_loses_too_much_and_resumes_with_a_higher_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: Callable[[], Any]
) -> None:
    write_jsonl(tmp_path / "in/forum/a.jsonl", [{"id": n, "text": essay(n % 20)} for n in range(1200)])
    write_jsonl(tmp_path / "in/wiki/a.jsonl", [{"id": n, "text": essay(n)} for n in range(20)])
    with pytest.raises(PenstockError) as alarm:
        fuzzy(tmp_path).run(executor())
    assert "source 'in/forum' would lose 1,180 of its 1,200 documents (98.3%)" in str(alarm.value)
    assert "run again with max_removed_share=1" in str(alarm.value)
    assert not list((tmp_path / "out").glob("deduplicated/*.jsonl"))
    assert list((tmp_path / "out/FuzzyDuplicateIds").glob("*.parquet")), "the pairs can be looked at"
    forbid(monkeypatch, signing, "text_hashes")
    result = fuzzy(tmp_path, max_removed_share=1).run(quiet())
    assert result.get_metadata("num_duplicates") == 1200


def replace_in_place(path: Path) -> None:
    """Replace the first document of a file by another of the same size, and restore the modification time."""
    times = path.stat()
    first, *others = [json.loads(line) for line in path.read_text().splitlines()]
    write_jsonl(path, [{**first, "text": first["text"][::-1]}, *others])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("workflow", ["exact", "fuzzy", "lines"])
def test_file_changed_in_place_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workflow: str) -> None:
    write_corpus(tmp_path)

    def make(folder: Path, output: str = "out") -> Any:
        if workflow == "lines":
            return LineDeduplicationWorkflow(
                str(folder / output), str(folder / "in"), "jsonl", max_documents=1, show_progress=False,
                input_blocksize=BLOCKSIZE,
            )  # fmt: skip
        return {"exact": exactly, "fuzzy": fuzzy}[workflow](folder, output)

    stage: Any = {"exact": RemoveDocuments, "fuzzy": RemoveDocuments, "lines": CutPassages}[workflow]
    with monkeypatch.context() as patch:
        stop_at(patch, stage, 1)
        with pytest.raises(PenstockError, match="stopped here"):
            make(tmp_path).run(quiet())
    size = (tmp_path / "in/0.jsonl").stat().st_size
    replace_in_place(tmp_path / "in/0.jsonl")
    assert (tmp_path / "in/0.jsonl").stat().st_size == size
    make(tmp_path).run(quiet())
    make(tmp_path, "whole").run(quiet())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_removal_from_a_changed_file_is_rejected(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    found = ExactDeduplicationWorkflow(str(tmp_path / "found"), str(tmp_path / "in"), "jsonl", show_progress=False)
    found.run(quiet())

    def removal(output: str) -> TextDuplicatesRemovalWorkflow:
        return TextDuplicatesRemovalWorkflow(
            str(tmp_path / "in"), str(tmp_path / "found/ExactDuplicateIds"), str(tmp_path / output), "jsonl",
            id_generator_path=str(tmp_path / "found/exact_id_generator.json"), output_filetype="jsonl",
        )  # fmt: skip

    removal("before").run(quiet())
    os.utime(tmp_path / "in/0.jsonl")
    removal("touched").run(quiet())
    assert contents(tmp_path / "touched", ["*.jsonl"]) == contents(tmp_path / "before", ["*.jsonl"]) != {}
    replace_in_place(tmp_path / "in/0.jsonl")
    with pytest.raises(InputError, match=r"0\.jsonl: has changed since it was searched for duplicates"):
        removal("after").run(quiet())
