"""The number and size of the tasks of a source are known before the run."""

import pytest

from penstock.core.files import SizedFile
from penstock.plan.partition import partition
from penstock.plan.plan import SourcePartition
from penstock.text.io.partitioning import FilePartitioningStage

FILES = [SizedFile("a", 60), SizedFile("b", 30), SizedFile("c", 40)]


@pytest.mark.parametrize(
    ("stage", "tasks", "largest"),
    [
        (FilePartitioningStage("in"), 3, 60),
        (FilePartitioningStage("in", files_per_partition=2), 2, 90),
        (FilePartitioningStage("in", blocksize=100), 2, 90),
        (FilePartitioningStage("in", blocksize="1kB"), 1, 130),
        (FilePartitioningStage("in", limit=1), 1, 60),
    ],
)
def test_the_plan_reports_the_number_and_size_of_tasks(stage: FilePartitioningStage, tasks: int, largest: int) -> None:
    assert partition([stage], {0: FILES}) == (SourcePartition("file_partitioning", 3, 130, tasks, largest),)


def test_a_source_without_files_has_no_tasks() -> None:
    assert partition([FilePartitioningStage("in")], {0: []}) == (SourcePartition("file_partitioning", 0, 0, 0, 0),)


def test_without_a_listing_no_source_is_reported() -> None:
    assert partition([FilePartitioningStage("in")], {}) == ()


def test_files_per_partition_and_blocksize_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"files_per_partition=2 and blocksize='1MB' exclude each other.* Give one"):
        FilePartitioningStage("in", files_per_partition=2, blocksize="1MB")
    with pytest.raises(ValueError, match="1 or more"):
        FilePartitioningStage("in", files_per_partition=0)
    with pytest.raises(ValueError, match="is not a size"):
        FilePartitioningStage("in", blocksize="large")
