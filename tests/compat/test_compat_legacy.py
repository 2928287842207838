"""``Sequential`` and ``ToBackend``, as older scripts write them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock import Resources, processing_stage
from penstock.compat.legacy import Sequential, ToBackend
from penstock.core.composite import expand
from penstock.core.task import Task


@processing_stage(name="same")
def same(task: Task[Any]) -> Task[Any]:
    return task


def test_sequential_expands_to_its_stages_even_when_nested() -> None:
    nested = Sequential([same, Sequential([ToBackend("cudf"), same])])
    assert [stage.name for stage in expand([nested])] == ["same", "to_backend", "same"]


def test_sequential_passes_settings_to_stages_by_name() -> None:
    changed = Sequential([same, ToBackend("pandas")]).with_({"same": {"resources": Resources(cpus=3)}})
    assert [stage.resources.cpus for stage in expand([changed])] == [3, 1]


@pytest.mark.parametrize("stages", [[len], [ToBackend]])
def test_sequential_accepts_only_stages(stages: list[object]) -> None:
    with pytest.raises(TypeError, match="Sequential takes stages"):
        Sequential(cast(Any, stages))


def test_an_empty_sequential_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one stage"):
        Sequential([])


def test_to_backend_accepts_two_backends() -> None:
    with pytest.raises(ValueError, match=r"expected 'cudf' or 'pandas'\. Did you mean 'pandas'"):
        ToBackend("panda")
