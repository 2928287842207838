"""Sequences are packed by tokens, every one once, and the same way for the same lengths."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.models.packing import pack


@given(st.lists(st.integers(1, 500), max_size=60), st.integers(1, 1000))
def test_every_sequence_is_in_one_batch_and_batches_keep_to_the_limit(lengths: list[int], max_tokens: int) -> None:
    batches = list(pack(lengths, max_tokens))
    assert sorted(int(row) for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        tokens = sum(lengths[row] for row in batch)
        assert tokens <= max_tokens or len(batch) == 1


def test_sequences_of_similar_length_are_together() -> None:
    lengths = np.array([10, 1000, 12, 990, 11, 995])
    assert [sorted(lengths[batch].tolist()) for batch in pack(lengths, 2990)] == [[990, 995, 1000], [10, 11, 12]]
