"""A journal that a crash may cut anywhere still tells the truth about what was done before."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CheckpointError
from penstock.storage.journal import FILE_NAME, Journal

FINGERPRINT = {"stage 1 'a'": "A"}
COMMITS = st.lists(st.dictionaries(st.text(max_size=5), st.binary(max_size=20), min_size=1, max_size=3), max_size=5)


def write(folder: Path, commits: list[dict[str, bytes]]) -> list[int]:
    """Write a journal, and return how long the file is after each commit."""
    journal = Journal(folder, FINGERPRINT)
    lengths = [journal.path.stat().st_size]
    for commit in commits:
        journal.commit(commit)
        lengths.append(journal.path.stat().st_size)
    journal.close()
    return lengths


def merged(commits: list[dict[str, bytes]]) -> dict[str, bytes]:
    return {key: value for commit in commits for key, value in commit.items()}


@settings(max_examples=50, deadline=None)
@given(commits=COMMITS, more=COMMITS, data=st.data())
def test_what_is_read_after_a_cut_is_what_was_committed_before_it(
    commits: list[dict[str, bytes]], more: list[dict[str, bytes]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lengths = write(folder, commits)
        path = folder / FILE_NAME
        content = path.read_bytes()
        cut = data.draw(st.integers(0, len(content)))
        junk = data.draw(st.sampled_from([b"", b"\0" * 40, b"\xff" * 40]))
        path.write_bytes(content[:cut] + junk)
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


def test_what_lay_behind_a_spoiled_record_does_not_come_back(tmp_path: Path) -> None:
    _, _, spoiled, _ = write(tmp_path, [{"a": b"1"}, {"b": b"2"}, {"c": b"3"}])
    path = tmp_path / FILE_NAME
    content = bytearray(path.read_bytes())
    content[spoiled - 1] ^= 0xFF
    path.write_bytes(content)
    journal = Journal(tmp_path, FINGERPRINT)
    assert journal.done == {"a": b"1"}
    journal.commit({"d": b"4"})  # as long as the spoiled one, so that the third would follow it without a gap
    journal.close()
    again = Journal(tmp_path, FINGERPRINT)
    again.close()
    assert again.done == {"a": b"1", "d": b"4"}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"stage 1 'a'": "B"}, "stage 1 'a' was A, now it is B"),
        ({}, "stage 1 'a' was A, now it is absent"),
        ({**FINGERPRINT, "stage 1 'a' n": "2"}, "stage 1 'a' n was absent, now it is 2"),
    ],
)
def test_a_journal_of_another_pipeline_is_refused_and_kept(tmp_path: Path, other: dict[str, str], message: str) -> None:
    write(tmp_path, [{"x": b"y"}])
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(CheckpointError) as caught:
        Journal(tmp_path, other)
    assert message in str(caught.value)
    assert (tmp_path / FILE_NAME).read_bytes() == before
