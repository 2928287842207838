"""Sizes are parsed and formatted."""

from typing import Any

import pytest

from penstock.core.sizes import human_bytes, parse_bytes


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (1, 1),
        (1.9, 1),
        ("7", 7),
        ("64MB", 64 * 10**6),
        ("64 mb", 64 * 10**6),
        ("1.5GiB", 3 * 2**29),
        (".5k", 500),
        ("2t", 2 * 10**12),
    ],
)
def test_sizes_are_parsed(written: Any, size: int) -> None:
    assert parse_bytes(written) == size


@pytest.mark.parametrize(
    "written", ["", "MB", "64XB", "-1", "1e6", "6 4", 0, -5, "0.1", True, None, float("nan"), float("inf")]
)
def test_invalid_sizes_are_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes(written)


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_550_000, "1.6 MB"), (2.5e9, "2.5 GB"), (10**15, "1000.0 TB")],
)
def test_sizes_are_formatted(size: float, words: str) -> None:
    assert human_bytes(size) == words
