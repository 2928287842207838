"""WARC files: good records are read, damaged ones are reported."""

import bz2
import gzip
import io
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warc_files import record

from penstock.text.extract.members import Members
from penstock.text.extract.outcome import Damaged
from penstock.text.extract.warc import WarcRecord, read_warc

BLOCKS = [f"document number {number} ".encode() * 50 for number in range(6)]
RECORDS = [record(block, "conversion", f"http://example.org/{number}") for number, block in enumerate(BLOCKS)]
MEMBERS = [gzip.compress(one, mtime=0) for one in RECORDS]
LAYOUTS = {
    "a member per record": b"".join(MEMBERS),
    "one member": gzip.compress(b"".join(RECORDS), mtime=0),
    "plain": b"".join(RECORDS),
}


def read(data: bytes, **options: int) -> tuple[list[WarcRecord], list[Damaged]]:
    found = list(read_warc(io.BytesIO(data), **options))
    return [one for one in found if isinstance(one, WarcRecord)], [one for one in found if isinstance(one, Damaged)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_record_is_read(layout: str) -> None:
    records, damaged = read(LAYOUTS[layout])
    assert [one.block for one in records] == BLOCKS
    assert [one.url for one in records] == [f"http://example.org/{number}" for number in range(6)]
    assert records[0].date == "2024-03-01T12:00:00Z"
    assert damaged == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_truncated_archive_yields_its_complete_records_and_is_reported(layout: str) -> None:
    data = LAYOUTS[layout]
    records, [damaged] = read(data[: len(data) - 20])
    assert [one.block for one in records] == BLOCKS[: len(records)]
    assert len(records) == 5
    assert "downloaded completely" in damaged.reason or "truncated" in damaged.reason


def test_a_damaged_member_costs_one_record() -> None:
    broken = bytearray(MEMBERS[2])
    broken[60:64] = b"\0\0\0\0"
    records, [damaged] = read(b"".join([*MEMBERS[:2], bytes(broken), *MEMBERS[3:]]))
    assert [one.block for one in records] == BLOCKS[:2] + BLOCKS[3:]
    assert damaged.position == len(MEMBERS[0] + MEMBERS[1])


def test_a_wrong_checksum_is_noticed_even_if_everything_decompressed() -> None:
    broken = bytearray(MEMBERS[2])
    broken[-8] ^= 1
    records, damaged = read(b"".join([*MEMBERS[:2], bytes(broken), *MEMBERS[3:]]))
    assert [one.block for one in records] == BLOCKS[:2] + BLOCKS[3:]
    assert len(damaged) == 1


def test_a_record_with_a_too_large_content_length_does_not_swallow_the_next() -> None:
    lying = record(b"short", "conversion", "http://example.org/liar", Content_Length="5000")
    records, [damaged] = read(gzip.compress(lying) + MEMBERS[0])
    assert [one.block for one in records] == [BLOCKS[0]]
    assert damaged.excerpt == "http://example.org/liar"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_record_that_is_too_large_is_skipped(pack: type[bytes]) -> None:
    huge = record(b"x" * 100_000, "conversion", "http://example.org/huge")
    records, [damaged] = read(pack(RECORDS[0]) + pack(huge) + pack(RECORDS[1]), max_record_bytes=10_000)
    assert [one.block for one in records] == BLOCKS[:2]
    assert "100,000 bytes" in damaged.reason


def test_garbage_between_plain_records_is_skipped() -> None:
    records, [damaged] = read(RECORDS[0] + b"garbage\nmore of it\n" + RECORDS[1])
    assert [one.block for one in records] == BLOCKS[:2]
    assert damaged.position == len(RECORDS[0])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"filedesc://IA-001102.arc 0.0.0.0 19960923142103 text/plain 76\n1 0 Alexa", "warcio recompress"),
        (b"just some text", "expected 'WARC/'"),
        (b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: many\r\n\r\n", "Content-Length is 'many'"),
        (b"WARC/1.0\r\nWARC-Type: response\r\n", "no end"),
    ],
)
def test_a_file_that_is_not_an_archive_is_named(data: bytes, reason: str) -> None:
    records, damaged = read(data)
    assert records == []
    assert reason in damaged[0].reason


def test_an_empty_file_has_no_records() -> None:
    assert read(b"") == ([], [])


@given(data=st.data(), layout=st.sampled_from(list(LAYOUTS)))
@settings(max_examples=150, deadline=None)
def test_damaged_bytes_never_lose_a_record_silently(data: st.DataObject, layout: str) -> None:
    whole = LAYOUTS[layout]
    begin = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(begin + 1, min(len(whole), begin + 40)))
    changed = whole[:begin] + data.draw(st.binary(max_size=40)) + whole[end:]
    records, damaged = read(changed)
    missing = [block for block in BLOCKS if block not in [one.block for one in records]]
    # In a plain file nothing can tell a changed letter from the right one; compressed, the checksum can.
    if missing and layout != "plain":
        assert damaged
    if layout == "a member per record":
        assert all(one.block in BLOCKS for one in records)
        assert len(missing) <= 3


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_a_member_is_decompressed_in_pieces_of_bounded_size(compress: Callable[[bytes], bytes]) -> None:
    members = Members(io.BytesIO(compress(bytes(30_000_000)) + compress(b"next")))
    sizes = []
    while piece := members.read_piece():
        sizes.append(len(piece))
    assert sum(sizes) == 30_000_004
    assert max(sizes) <= 1 << 22
