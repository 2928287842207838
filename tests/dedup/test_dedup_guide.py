"""The Python code blocks of docs/how-to/dedup.md run without changes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from corpora import essay, ids, write_jsonl

GUIDE = Path(__file__).resolve().parents[2] / "docs/how-to/dedup.md"


def test_code_blocks_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "crawl/a.jsonl", [{"id": n, "text": essay(n % 3)} for n in range(5)])
    first, later = re.findall(
        r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    exec(compile(first, "docs/how-to/dedup.md", "exec"), {})
    assert "2" in capsys.readouterr().out.split()
    assert ids(tmp_path / "unique/deduplicated") == [0, 1, 2]
    (tmp_path / "moved").mkdir()
    shutil.move(tmp_path / "crawl", tmp_path / "moved/crawl")
    exec(compile(later, "docs/how-to/dedup.md", "exec"), {})
    assert ids(tmp_path / "unique/later") == [0, 1, 2]
