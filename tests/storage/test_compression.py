"""Compressed data is decompressed in steps of any size, and a truncated stream as far as possible."""

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.storage.compression import COMPRESSIONS, Decompressed, compressing
from penstock.storage.filesystem import open_input


def compressed(content: bytes, ending: str) -> bytes:
    stream = io.BytesIO()
    with compressing(stream, ending) as target:
        target.write(content)
    return stream.getvalue()


def read_or_nothing(stream: Decompressed) -> bytes:
    try:
        return stream.read(100) or b""
    except EOFError:
        return b""


@settings(max_examples=50, deadline=None)
@given(
    members=st.lists(st.binary(max_size=100), min_size=1, max_size=4),
    ending=st.sampled_from(COMPRESSIONS),
    padding=st.integers(0, 4),
    step=st.integers(1, 50),
)
def test_concatenated_members_are_read_as_one_stream(
    members: list[bytes], ending: str, padding: int, step: int
) -> None:
    stored = b"".join(compressed(member, ending) for member in members) + bytes(padding)
    stream = Decompressed(io.BytesIO(stored), ending)
    pieces = []
    while piece := stream.read(step):
        assert len(piece) <= step
        pieces.append(piece)
    assert b"".join(pieces) == b"".join(members)


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_available_data_is_returned_before_the_error(ending: str) -> None:
    first, second = b"a" * 1000, bytes(range(256)) * 1000
    stored = compressed(first, ending) + compressed(second, ending)
    stream = Decompressed(io.BytesIO(stored[:-20]), ending)
    found = b""
    while len(piece := read_or_nothing(stream)):
        found += piece
    with pytest.raises(EOFError, match="the file ends in the middle of a compressed stream"):
        stream.read(100)
    assert (first + second).startswith(found)
    assert len(found) >= 1000


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_file_in_another_format_than_its_name_is_reported(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(b"plain text")
    with (
        pytest.raises(InputError, match=f"{path}: cannot be read: the compressed stream is damaged"),
        open_input(str(path)) as stream,
    ):
        stream.read()


@pytest.mark.parametrize("ending", [*COMPRESSIONS, ""])
def test_lines_are_read_with_every_compression(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(compressed(b"one\ntwo\n" * 10_000, ending or None))  # type: ignore[arg-type]
    with open_input(str(path)) as stream:
        assert list(stream) == [b"one\n", b"two\n"] * 10_000
