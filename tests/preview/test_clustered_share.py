"""Confidence intervals of shares that are estimated from clusters."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.preview.clustered_share import clustered_share


@pytest.mark.parametrize("resemblance", [0.0, 0.3])
def test_the_true_share_is_within_the_interval_in_at_least_90_percent_of_samples(resemblance: float) -> None:
    chance = np.random.default_rng(1)
    truth, places, per_place = 0.2, 40, 50
    held = 0
    for _ in range(300):
        # Shares vary between clusters as much as neighbouring documents resemble each other.
        spread = (1 / resemblance - 1) if resemblance else 1e9
        shares = chance.beta(truth * spread, (1 - truth) * spread, places)
        hits = chance.binomial(per_place, shares)
        share = clustered_share(hits.tolist(), [per_place] * places, [1.0] * places)
        held += share.low <= truth <= share.high
    assert held / 300 >= 0.9


def test_clusters_are_weighted_by_the_documents_they_represent() -> None:
    assert clustered_share([10, 0], [10, 10], [3.0, 1.0]).value == 0.75


def test_an_empty_sample_has_an_interval_from_0_to_1() -> None:
    share = clustered_share([0, 0], [0, 0], [1.0, 1.0])
    assert (share.low, share.high) == (0.0, 1.0)
