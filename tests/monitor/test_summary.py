"""The summary of a finished run."""

from typing import Any

import pytest

from penstock.core.counters import StageCounters
from penstock.monitor.summary import RunSummary

POOLS: list[dict[str, Any]] = [{"name": "read"}, {"name": "clean", "bound_by": "CPUs"}]
PLANS: list[dict[str, Any]] = [
    {"at": 50.0, "reason": "start", "bottleneck": None, "applied": True},
    {"at": 51.0, "reason": "first rates", "bottleneck": "clean", "applied": True},
    {"at": 55.0, "reason": "it was time", "bottleneck": "clean", "applied": False},
    {"at": 59.0, "reason": "the tail", "bottleneck": "read", "applied": True},
]


def summary(**changes: Any) -> RunSummary:
    return RunSummary("p", [StageCounters("clean", tasks=2)], 10.0, **changes)


def printed(summary: RunSummary, capsys: pytest.CaptureFixture[str]) -> list[str]:
    summary.print()
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err.splitlines()


def test_without_a_scheduler_the_summary_has_no_plans_and_no_pools(capsys: pytest.CaptureFixture[str]) -> None:
    assert not {"pools", "plans", "peak_bytes", "budget_bytes", "failed"} & summary().to_dict().keys()
    assert not any("plan" in line or "bound by" in line for line in printed(summary(), capsys))


def test_pools_plans_and_memory_are_in_the_summary_data() -> None:
    given = {"pools": POOLS, "plans": PLANS, "peak_bytes": 0, "budget_bytes": 4_000_000_000, "failed": 0}
    data = summary(**given).to_dict()
    assert {key: data[key] for key in given} == given


def test_the_closing_line_names_memory_plans_and_the_bottleneck_of_most_of_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(
        summary(pools=POOLS, plans=PLANS, peak_bytes=1_200_000_000, budget_bytes=4_000_000_000, failed=1), capsys
    )
    assert lines[-2:] == [
        "1 item failed in every attempt.",
        "At most 1.2 GB of the 4.0 GB budget was in flight; 3 plans; bound by 'clean' on CPUs.",
    ]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"peak_bytes": 12}, "At most 12 B was in flight."),
        ({"plans": PLANS[:1]}, "1 plan."),
        ({"plans": [{"bottleneck": "read"}]}, "1 plan; bound by 'read'."),
        ({"plans": []}, "0 plans."),
    ],
)
def test_the_closing_line_contains_only_known_values(
    given: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(summary(pools=POOLS, **given), capsys)[-1] == line


def test_pools_without_plans_or_memory_add_no_closing_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(summary(pools=POOLS), capsys) == printed(summary(), capsys)


def documents(stage: str, before: int, after: int) -> StageCounters:
    return StageCounters(stage, 1, before, after, noun_in="documents", noun_out="documents")


def test_kept_and_dropped_are_shown_if_stages_only_drop_documents(capsys: pytest.CaptureFixture[str]) -> None:
    counters = [documents("short", 10, 8), documents("odd", 8, 5)]
    lines = printed(RunSummary("p", counters, 1.0), capsys)
    assert "Read 10 documents, kept 5 (50.0%), dropped 5: 3 by odd; 2 by short." in lines


def test_kept_is_not_shown_if_a_stage_creates_documents(capsys: pytest.CaptureFixture[str]) -> None:
    counters = [documents("split", 10, 100), documents("odd", 100, 60)]
    assert not any("kept" in line for line in printed(RunSummary("p", counters, 1.0), capsys))
