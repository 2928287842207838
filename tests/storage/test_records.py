"""Record files that a crash may truncate anywhere."""

from __future__ import annotations

import io
import resource
from pathlib import Path

import pytest

from penstock.errors import OutputError
from penstock.storage.records import RecordFile, framed, read_records


def bodies(data: bytes) -> list[bytes]:
    return [body for body, _ in read_records(io.BytesIO(data))]


def test_complete_records_are_read_after_truncation() -> None:
    data = framed(b"one") + framed(b"two")
    first = len(framed(b"one"))
    for cut in range(len(data) + 1):
        assert bodies(data[:cut]) == [b"one", b"two"][: (cut >= first) + (cut >= len(data))]


def test_changed_byte_is_detected() -> None:
    assert bodies(framed(b"one") + framed(b"two").replace(b"two", b"tvo")) == [b"one"]


def test_records_are_appended_to_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    for part in (b"one", b"two"):
        file = RecordFile(str(path))
        file.append(part)
        file.close()
    assert bodies(path.read_bytes()) == [b"one", b"two"]


def test_record_that_does_not_fit_on_disk_leaves_no_bytes(tmp_path: Path) -> None:
    file = RecordFile(str(tmp_path / "file"))
    file.append(b"one")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))  # like a full disk: only a part is written
    try:
        with pytest.raises(OutputError, match="the disk is full"):
            file.append(b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    file.append(b"two")
    file.close()
    assert bodies((tmp_path / "file").read_bytes()) == [b"one", b"two"]
