"""Resources refuse impossible values."""

import dataclasses
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Resources

FIELDS = ["cpus", "gpus", "gpu_memory_gb", "memory_gb"]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [-1, -0.001, float("nan"), float("inf"), float("-inf")])
def test_a_number_must_be_finite_and_not_negative(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"Resources\\({field}="):
        Resources(**{field: value})


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [True, False, "2", [1]])
def test_values_that_are_not_numbers_are_refused(field: str, value: Any) -> None:
    with pytest.raises(TypeError, match="expected a number"):
        Resources(**{field: value})


@pytest.mark.parametrize("field", ["cpus", "gpus", "gpu_memory_gb"])
def test_only_memory_gb_may_be_none(field: str) -> None:
    with pytest.raises(TypeError, match=field):
        Resources(**{field: None})  # type: ignore[arg-type]
    assert Resources(memory_gb=None) == Resources()


def test_gpus_and_gpu_memory_gb_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="give one or the other"):
        Resources(gpus=1, gpu_memory_gb=8)


def test_more_than_one_gpu_must_be_a_whole_number() -> None:
    assert Resources(gpus=0.25).gpus == 0.25
    assert Resources(gpus=3.0).gpus == 3
    with pytest.raises(ValueError, match="Ask for 1 or 2"):
        Resources(gpus=1.5)


def test_memory_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="leave it out"):
        Resources(memory_gb=0)


@pytest.mark.parametrize(
    ("resources", "needs_gpu"),
    [
        (Resources(), False),
        (Resources(gpus=0.1), True),
        (Resources(gpu_memory_gb=0.5), True),
        (Resources(cpus=0), False),
    ],
)
def test_requires_gpu(resources: Resources, needs_gpu: bool) -> None:
    assert resources.requires_gpu is needs_gpu


@given(asked=st.integers(1, 10**6), device=st.integers(1, 10**6))
def test_a_gpu_share_is_not_rounded(asked: int, device: int) -> None:
    # Not rounded to a tenth: 16 GB of an 80 GB device is 0.2, but 13 GB is 0.1625 and not 0.2.
    assert Resources(gpu_memory_gb=asked).gpu_share(device) == float(Fraction(asked, device))


def test_the_gpu_share_of_gpu_memory_gb_depends_on_the_device() -> None:
    asked = Resources(gpu_memory_gb=20)
    assert (asked.gpu_memory_gb, asked.gpu_share(80), asked.gpu_share(40)) == (20, 0.25, 0.5)
    assert Resources(gpus=2).gpu_share(80) == 2


def test_resources_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Resources().cpus = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (Resources(), "1 CPU"),
        (Resources(cpus=0.5, gpus=0.25), "0.5 CPU, 0.25 GPU"),
        (Resources(cpus=4, gpu_memory_gb=16, memory_gb=8), "4 CPUs, 16 GB of one GPU, 8 GB memory"),
    ],
)
def test_resources_as_text(resources: Resources, words: str) -> None:
    assert str(resources) == words
