"""Bounds that hold as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.preview.clustered_share import clustered_share


@pytest.mark.parametrize("resemblance", [0.0, 0.3])
def test_the_truth_lies_within_the_bounds_nearly_always(resemblance: float) -> None:
    chance = np.random.default_rng(1)
    truth, places, per_place = 0.2, 40, 50
    held = 0
    for _ in range(300):
        # Shares differ from place to place as much as documents side by side resemble each other.
        spread = (1 / resemblance - 1) if resemblance else 1e9
        shares = chance.beta(truth * spread, (1 - truth) * spread, places)
        hits = chance.binomial(per_place, shares)
        share = clustered_share(hits.tolist(), [per_place] * places, [1.0] * places)
        held += share.low <= truth <= share.high
    assert held / 300 >= 0.9


def test_a_place_that_stands_for_more_counts_for_more() -> None:
    assert clustered_share([10, 0], [10, 10], [3.0, 1.0]).value == 0.75


def test_of_nothing_nothing_is_known() -> None:
    share = clustered_share([0, 0], [0, 0], [1.0, 1.0])
    assert (share.low, share.high) == (0.0, 1.0)
