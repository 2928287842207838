"""Records that a crash may cut anywhere."""

from __future__ import annotations

import io
import resource
from pathlib import Path

import pytest

from penstock.errors import OutputError
from penstock.storage.records import RecordFile, framed, read_records


def bodies(data: bytes) -> list[bytes]:
    return [body for body, _ in read_records(io.BytesIO(data))]


def test_whatever_a_crash_cuts_off_the_rest_is_read() -> None:
    data = framed(b"one") + framed(b"two")
    first = len(framed(b"one"))
    for cut in range(len(data) + 1):
        assert bodies(data[:cut]) == [b"one", b"two"][: (cut >= first) + (cut >= len(data))]


def test_a_changed_byte_is_noticed() -> None:
    assert bodies(framed(b"one") + framed(b"two").replace(b"two", b"tvo")) == [b"one"]


def test_a_file_grows_record_by_record(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    for part in (b"one", b"two"):
        file = RecordFile(str(path))
        file.append(part)
        file.close()
    assert bodies(path.read_bytes()) == [b"one", b"two"]


def test_of_a_record_there_is_no_room_for_nothing_stays(tmp_path: Path) -> None:
    file = RecordFile(str(tmp_path / "file"))
    file.append(b"one")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))  # what a full disk does: a part is written
    try:
        with pytest.raises(OutputError, match="the disk is full"):
            file.append(b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    file.append(b"two")
    file.close()
    assert bodies((tmp_path / "file").read_bytes()) == [b"one", b"two"]
