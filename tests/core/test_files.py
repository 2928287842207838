"""Files are grouped in order; none is lost or repeated."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.files import SizedFile, group_files

SIZES = st.lists(st.integers(0, 100), max_size=20)


def files(sizes: list[int]) -> list[SizedFile]:
    return [SizedFile(f"f{number}", size) for number, size in enumerate(sizes)]


@given(sizes=SIZES, blocksize=st.integers(1, 150))
def test_a_group_holds_as_many_files_as_fit_into_the_blocksize(sizes: list[int], blocksize: int) -> None:
    given_files = files(sizes)
    groups = list(group_files(given_files, blocksize=blocksize))
    assert [file for group in groups for file in group] == given_files
    for group in groups:
        assert len(group) == 1 or sum(file.size for file in group) <= blocksize
    for group, following in pairwise(groups):
        assert sum(file.size for file in group) + following[0].size > blocksize


@given(sizes=SIZES, count=st.integers(1, 5))
def test_a_group_holds_at_most_files_per_partition_files(sizes: list[int], count: int) -> None:
    groups = list(group_files(files(sizes), files_per_partition=count))
    assert [file for group in groups for file in group] == files(sizes)
    assert all(len(group) == count for group in groups[:-1])


@pytest.mark.parametrize("sizes", [[], [5, 1]])
def test_without_blocksize_and_files_per_partition_each_file_is_a_group(sizes: list[int]) -> None:
    assert list(group_files(files(sizes))) == [[file] for file in files(sizes)]
