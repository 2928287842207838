"""A truncated journal still holds all earlier commits, and reading a journal runs no code."""

import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.rejection import Rejection
from penstock.errors import CheckpointError
from penstock.storage.input_files import FileMark
from penstock.storage.journal import FILE_NAME, MAGIC, DoneGroup, InputListing, Journal, Withdrawal
from penstock.storage.records import framed

FINGERPRINT = {"stage 1 'a'": "A"}
# File names may be invalid Unicode.
TEXT = st.text(st.characters(), max_size=5)
GROUPS = st.builds(
    lambda sources, outputs, files, excerpt: DoneGroup(
        tuple(sources), tuple(outputs), tuple(files), (Rejection("read", "bad", position=3, excerpt=excerpt),)
    ),
    st.lists(TEXT, min_size=1, max_size=3),
    st.lists(st.binary(max_size=20), max_size=2),
    st.lists(TEXT, max_size=2),
    TEXT,
)
COMMITS = st.lists(st.lists(GROUPS, min_size=1, max_size=3), max_size=5)
Commits = list[list[DoneGroup]]


def one(source: str, output: bytes) -> list[DoneGroup]:
    return [DoneGroup((source,), (output,))]


def write(folder: Path, commits: Commits) -> list[int]:
    """Write a journal, and return the size of the file after each commit."""
    journal = Journal(folder, FINGERPRINT)
    lengths = [journal.path.stat().st_size]
    for commit in commits:
        journal.commit(commit)
        lengths.append(journal.path.stat().st_size)
    journal.close()
    return lengths


def merged(commits: Commits) -> dict[str, DoneGroup]:
    return {source: group for commit in commits for group in commit for source in group.sources}


@settings(max_examples=50, deadline=None)
@given(commits=COMMITS, more=COMMITS, data=st.data())
def test_truncated_journal_contains_exactly_the_earlier_commits(
    commits: Commits, more: Commits, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lengths = write(folder, commits)
        path = folder / FILE_NAME
        content = path.read_bytes()
        cut = data.draw(st.integers(0, len(content)))
        junk = data.draw(st.sampled_from([b"", b"\0" * 40, b"\xff" * 40] if cut >= len(MAGIC) else [b"", b"\0" * cut]))
        path.write_bytes(content[:cut] + junk if cut >= len(MAGIC) else junk or content[:cut])
        whole = sum(length <= cut for length in lengths)  # the first record names the pipeline
        kept = commits[: max(0, whole - 1)]
        journal = Journal(folder, FINGERPRINT)
        assert journal.done == merged(kept)
        assert journal.resumed is (whole > 0)
        for commit in more:
            journal.commit(commit)
        journal.close()
        again = Journal(folder, FINGERPRINT)
        again.close()
        assert again.done == merged([*kept, *more]), "writing goes on from where reading stopped"


def test_records_after_a_damaged_record_do_not_reappear(tmp_path: Path) -> None:
    _, _, spoiled, _ = write(tmp_path, [one("a", b"1"), one("b", b"2"), one("c", b"3")])
    path = tmp_path / FILE_NAME
    content = bytearray(path.read_bytes())
    content[spoiled - 1] ^= 0xFF
    path.write_bytes(content)
    journal = Journal(tmp_path, FINGERPRINT)
    assert journal.done == merged([one("a", b"1")])
    journal.commit(one("d", b"4"))  # as long as the damaged record, so that the third record would follow without a gap
    journal.close()
    again = Journal(tmp_path, FINGERPRINT)
    again.close()
    assert again.done == merged([one("a", b"1"), one("d", b"4")])


def test_withdrawn_sources_are_not_done_and_are_removed_once(tmp_path: Path) -> None:
    write(tmp_path, [one("a", b"1"), one("b", b"2")])
    listing = InputListing((FileMark("/in/\udcff", "\udcff", 5, 1, 2, "xxh3:0"),), {"a": (0,), "b": ()})
    withdrawal = Withdrawal(("a",), ("a.jsonl",))
    journal = Journal(tmp_path, FINGERPRINT)
    journal.list_input(listing, withdrawal, ["other.jsonl"])
    journal.close()
    again = Journal(tmp_path, FINGERPRINT)
    assert (again.done, again.input, again.to_remove) == (merged([one("b", b"2")]), listing, withdrawal)
    assert again.files_of_others == ("other.jsonl",)
    again.removed()
    again.close()
    last = Journal(tmp_path, FINGERPRINT)
    last.close()
    assert (last.done, last.to_remove) == (again.done, None)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"stage 1 'a'": "B"}, "stage 1 'a' was A, now it is B"),
        ({}, "stage 1 'a' was A, now it is absent"),
        ({**FINGERPRINT, "stage 1 'a' n": "2"}, "stage 1 'a' n was absent, now it is 2"),
    ],
)
def test_journal_of_another_pipeline_is_rejected_and_kept(tmp_path: Path, other: dict[str, str], message: str) -> None:
    write(tmp_path, [one("x", b"y")])
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(CheckpointError) as caught:
        Journal(tmp_path, other)
    assert message in str(caught.value)
    assert (tmp_path / FILE_NAME).read_bytes() == before


class Harm:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_pickle_in_a_journal_is_rejected_and_not_executed(tmp_path: Path) -> None:
    planted = framed(pickle.dumps(Harm(tmp_path / "ran"), protocol=5))
    path = tmp_path / "state" / FILE_NAME
    path.parent.mkdir()
    for content, message in [
        (planted, r"not a journal of this version.*delete .*state to start over"),
        (MAGIC + planted, r"record 1 is complete, but Penstock did not write it"),
    ]:
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=message):
            Journal(path.parent, FINGERPRINT)
        assert path.read_bytes() == content
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("body", [b"\x01", b"\x92\xa4done\x91\x91\xc0", b"\x91" * 100_000, b"\xdf\xff\xff\xff\xff"])
def test_records_with_another_schema_are_rejected(tmp_path: Path, body: bytes) -> None:
    write(tmp_path, [one("a", b"1")])
    with (tmp_path / FILE_NAME).open("ab") as stream:
        stream.write(framed(body))
    with pytest.raises(CheckpointError, match=r"record 3 is complete, but Penstock did not write it"):
        Journal(tmp_path, FINGERPRINT)
