"""``xenna_stage_spec`` and ``ray_stage_spec`` in scripts written for NeMo Curator."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.stage import ProcessingStage, WorkerLimits
from penstock.core.task import Task


class Plain(ProcessingStage[Task[Any], Task[Any]]):
    def process(self, task: Task[Any]) -> Task[Any]:
        return task


class Declares(Plain):
    def xenna_stage_spec(self) -> dict[str, Any]:
        return {"worker_max_lifetime_m": 5, "worker_restart_interval_m": 1, "slots_per_actor": 2}

    def ray_stage_spec(self) -> dict[str, Any]:
        return {"max_calls_per_worker": 7}


@pytest.mark.usefixtures("compat")
def test_specs_passed_to_with_become_worker_limits() -> None:
    changed = (
        Plain().with_(xenna_stage_spec={"worker_max_growth_gb": 2}).with_(ray_stage_spec={"max_calls_per_worker": 3})
    )
    assert changed.worker_limits() == WorkerLimits(None, 3, 2)


@pytest.mark.usefixtures("compat")
def test_specs_defined_as_methods_become_worker_limits_and_with_wins_over_them() -> None:
    assert Declares().worker_limits() == WorkerLimits(300.0, 7, None, 60.0)
    changed = Declares().with_(xenna_stage_spec={"worker_max_lifetime_m": 10}, max_tasks_per_worker=1)
    assert changed.worker_limits() == WorkerLimits(600.0, 1, None, 60.0)


@pytest.mark.usefixtures("compat")
def test_a_number_of_workers_in_a_spec_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"stage 'Plain': num_workers does not belong in xenna_stage_spec. Write with_\(num_workers=…\)",
    ):
        Plain().with_(xenna_stage_spec={"num_workers": 4})


@pytest.mark.usefixtures("no_compat")
def test_specs_are_unknown_without_the_compatibility_layer() -> None:
    with pytest.raises(TypeError, match="with_\\(\\) has no setting 'xenna_stage_spec'; it has name, resources"):
        Plain().with_(xenna_stage_spec={"worker_max_growth_gb": 2})
