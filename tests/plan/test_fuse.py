"""Neighbouring stages share a worker unless separating them has a benefit, and the plan gives the reason."""

from typing import Any

import pytest

from penstock import DocumentBatch, ProcessingStage, Resources, processing_stage
from penstock.plan.fuse import fuse
from penstock.text import RepeatedLinesFilter, ScoreFilter, WordCountFilter

Stage = ProcessingStage[Any, Any]


class Work(ProcessingStage[DocumentBatch, DocumentBatch]):
    def __init__(self, name: str = "work") -> None:
        self.name = name

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


class Barrier(Work):
    is_barrier = True


class Many(Work):
    def process(self, task: DocumentBatch) -> list[DocumentBatch]:  # type: ignore[override]
        return [task]


@processing_stage(name="many_too")
def many_too(task: DocumentBatch) -> list[DocumentBatch]:
    return [task]


def one_or_two(first: Stage, second: Stage) -> str | None:
    """Return the reason for two pools, or None if the stages share one."""
    pools = fuse([first, second])
    assert pools[0].border == ""
    assert [stage for pool in pools for stage in pool.stages] == [first, second]
    return pools[1].border if len(pools) == 2 else None


A, B = Work("a"), Work("b")
GPU = Resources(gpus=0.5)


def test_the_source_is_a_pool_of_its_own_whatever_it_declares() -> None:
    [source, rest] = fuse([A, B], begins_with_source=True)
    assert [stage.name for stage in source.stages] == ["a"]
    assert rest.border == "'a' is the source: its tasks spread over workers"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (Many("a"), B, "'a' turns one task into many, which spread over workers"),
        (many_too, B, "'many_too' turns one task into many, which spread over workers"),
        (A, Barrier("b"), "'b' needs all of its input before it emits any output"),
        (A.with_(num_workers=2), B, "'a' asks for a fixed number of workers (2)"),
        (A, B.with_(num_workers_per_node=0.5), "'b' asks for a fixed number of workers (0.5)"),
        (A.with_(num_workers=2), B.with_(num_workers=3), "'a' asks for a fixed number of workers (2)"),
        (A, B.with_(resources=GPU), "a worker needs 1 CPU, 0.5 GPU from here on, 1 CPU before"),
        (A.with_(resources=GPU), B, "a worker needs 1 CPU from here on, 1 CPU, 0.5 GPU before"),
        (A, B.with_(resources=Resources(cpus=2)), "a worker needs 2 CPUs from here on, 1 CPU before"),
        (A, B.with_(resources=Resources(memory_gb=2)), "a worker needs 1 CPU, 2 GB memory from here on, 1 CPU before"),
        (A, B.with_(runtime_env={"pip": ["x"]}), "'b' runs in another environment than 'a'"),
        (A, B.with_(batch_size=8), "'b' takes 8 tasks at a time"),
        (A.with_(max_worker_lifetime_s=2), B, "'b' replaces its workers at other limits than 'a'"),
        (A, B.with_(max_tasks_per_worker=2), "'b' replaces its workers at other limits than 'a'"),
    ],
)
def test_the_reason_for_a_pool_boundary(first: Stage, second: Stage, reason: str) -> None:
    assert one_or_two(first, second) == reason


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (A, B),
        (A, Many("b")),
        (A.with_(resources=Resources(cpus=0.25)), B),
        (A.with_(resources=GPU), B.with_(resources=GPU)),
        (A.with_(resources=Resources(cpus=4)), B.with_(resources=Resources(cpus=4))),
        (A.with_(batch_size=8), B.with_(batch_size=8)),
        (A.with_(batch_size=8), B),
        (A.with_(num_workers=2), B.with_(num_workers=2)),
        (Barrier("a"), B),
        (A.with_(runtime_env={"pip": ["x"]}), B.with_(runtime_env={"pip": ["x"]})),
    ],
)
def test_stages_that_share_a_worker(first: Stage, second: Stage) -> None:
    assert one_or_two(first, second) is None


def test_a_pool_needs_the_resources_of_its_most_demanding_stage() -> None:
    small, large = A.with_(resources=Resources(cpus=0.25), batch_size=4), B.with_(resources=Resources(cpus=1))
    [pool] = fuse([small, large])
    assert (pool.resources, pool.batch_size, pool.num_workers) == (Resources(cpus=1), 4, None)
    [fixed] = fuse([A.with_(num_workers=3)])
    assert fixed.num_workers == 3


def test_thirty_stages_of_one_core_are_one_pool() -> None:
    # One worker per stage would need 30 cores.
    [pool] = fuse([Work(f"filter_{number}") for number in range(30)])
    assert len(pool.stages) == len(pool.steps) == 30
    assert pool.resources == Resources(cpus=1)
    assert pool.name == "filter_0 … filter_29"


def test_pool_names_are_unique() -> None:
    gpu = B.with_(resources=GPU)
    assert [pool.name for pool in fuse([A, gpu, A, gpu])] == ["a", "b", "a #2", "b #2"]


def test_filters_merge_into_one_step_and_are_still_listed_as_stages() -> None:
    filters = [
        ScoreFilter(WordCountFilter()),
        ScoreFilter(RepeatedLinesFilter()).with_(name="lines"),
        ScoreFilter(WordCountFilter()),
    ]
    [pool] = fuse([A, *filters, B])
    assert pool.stages == (A, *filters, B)
    assert [[part.name for part in step.parts()] for step in pool.steps] == [
        ["a"],
        ["word_count", "lines", "word_count"],
        ["b"],
    ]
    assert [stage.name for stage in filters] == ["word_count", "lines", "word_count"]


def test_stages_of_different_pools_are_not_merged() -> None:
    filters: list[Stage] = [ScoreFilter(WordCountFilter()), ScoreFilter(WordCountFilter()).with_(num_workers=1)]
    assert [len(pool.steps) for pool in fuse(filters)] == [1, 1]
