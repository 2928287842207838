"""The guide from archives to documents does what it says."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_example_curates_the_archive_it_makes(tmp_path: Path) -> None:
    script = ROOT / "examples" / "warc_to_jsonl.py"
    subprocess.run([sys.executable, str(script), "work"], cwd=tmp_path, check=True, capture_output=True)
    lines = [line for file in (tmp_path / "work" / "clean").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["url"] for line in lines) == [
        "http://example.org/bakery",
        "http://example.org/flood",
    ]
    [dead] = (tmp_path / "work" / "clean" / "_penstock" / "dead_letters.jsonl").read_text().splitlines()
    assert "downloaded completely" in json.loads(dead)["reason"]
