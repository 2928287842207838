"""Commands in unusual environments: no current folder, a full disk, ASCII output, a closed pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mounts import needs_mounts, with_small_disk

PENSTOCK = [sys.executable, "-m", "penstock"]


def penstock(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*PENSTOCK, *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)


def write_job(folder: Path, stages: str = "", executor: str = "InlineExecutor", files: int = 5) -> None:
    (folder / "crawl").mkdir()
    for number in range(files):
        (folder / f"crawl/{number}.jsonl").write_text(
            json.dumps({"id": str(number), "text": f"doc {number} é →"}) + "\n"
        )
    (folder / "job.yaml").write_text(
        f"executor: {{_target_: {executor}}}\n"
        "stages:\n"
        "  - {_target_: JsonlReader, file_paths: crawl}\n"
        "  - {_target_: ScoreFilter, filter_obj: {_target_: WordCountFilter, min_words: 1}}\n"
        f"{stages}"
        "  - {_target_: JsonlWriter, path: clean}\n"
    )


def test_a_deleted_current_folder_is_explained(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir {gone}; exec "$@"'
    command = ["sh", "-c", script, "sh", *PENSTOCK, "curate", "crawl", "clean"]
    done = subprocess.run(command, cwd=gone, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "penstock: the current folder no longer exists" in done.stderr
    assert "Traceback" not in done.stderr


@needs_mounts
@pytest.mark.parametrize("executor", ["InlineExecutor", "StreamingExecutor"])
def test_a_full_checkpoint_disk_is_explained_and_the_run_resumes(executor: str, tmp_path: Path) -> None:
    (tmp_path / "filling.py").write_text(
        "from pathlib import Path\n"
        "from penstock import DocumentBatch, ProcessingStage\n"
        "class Filling(ProcessingStage[DocumentBatch, DocumentBatch]):\n"
        "    def process(self, task: DocumentBatch) -> DocumentBatch:\n"
        "        if not Path('again').exists():\n"
        "            try:\n"
        "                Path('state/full').write_bytes(bytes(1 << 20))\n"
        "            except OSError:\n"
        "                pass\n"
        "        return task\n"
    )
    write_job(tmp_path, "  - {_target_: filling.Filling}\n", executor, files=40)
    (tmp_path / "state").mkdir()
    twice = '"$@"; echo "first ended with $?" >&2; touch again; rm state/full; exec "$@"'
    inner = ["sh", "-c", twice, "sh", *PENSTOCK, "run", "job.yaml", "--checkpoint", "state"]
    command = with_small_disk(tmp_path / "state", "256k", inner)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "checkpoint state: completed work cannot be recorded: No space left on device" in done.stderr
    assert "first ended with 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "clean").glob("*.jsonl"))) == 40


@pytest.mark.parametrize("command", ["plan", "run", "why", "doctor"])
def test_ascii_output_has_the_same_text_and_no_error(command: str, tmp_path: Path) -> None:
    write_job(tmp_path)
    if command == "why":
        assert penstock(tmp_path, "run", "job.yaml").returncode == 0
    arguments = {"why": ["why", "clean", "1"], "doctor": ["doctor"]}.get(command, [command, "job.yaml"])
    done = penstock(tmp_path, *arguments, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).isascii()
    assert "Error" not in done.stderr
    if command == "plan":
        assert "Pool 2: jsonl_reader_stage ... jsonl_writer" in done.stdout


def test_a_closed_output_pipe_is_not_an_error(tmp_path: Path) -> None:
    process = subprocess.Popen([*PENSTOCK, "doctor"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_a_run_continues_when_its_stderr_is_closed(tmp_path: Path) -> None:
    write_job(tmp_path)
    process = subprocess.Popen([*PENSTOCK, "run", "job.yaml"], cwd=tmp_path, stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait() == 0
    assert len(list((tmp_path / "clean").glob("*.jsonl"))) == 5


def test_sigterm_exits_with_143_and_prints_how_to_resume(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(
        "import time\n"
        "from pathlib import Path\n"
        "from penstock import DocumentBatch, ProcessingStage\n"
        "class Waiting(ProcessingStage[DocumentBatch, DocumentBatch]):\n"
        "    def process(self, task: DocumentBatch) -> DocumentBatch:\n"
        "        Path('began').touch()\n"
        "        time.sleep(1000)\n"
        "        return task\n"
    )
    write_job(tmp_path, "  - {_target_: waiting.Waiting}\n")
    command = [*PENSTOCK, "run", "job.yaml", "--checkpoint", "state"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "began").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "0 source tasks are complete. Run it with checkpoint state to resume." in stderr
    assert "penstock: stopped by SIGTERM." in stderr
    assert "Traceback" not in stderr
