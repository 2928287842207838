"""FastTextModel returns the same results as the fastText library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fasttext
import fasttext_file
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.text import FastTextLangId
from penstock.text.fasttext_model import FastTextModel, read_model

LANGUAGES = FastTextLangId().model_path
OURS, THEIRS = read_model(LANGUAGES), fasttext.load_model(LANGUAGES).f
WORDS = ["</s>", "the", "of", "é", "日本", "__label__x", "a"]
# Words known and unknown, every separator, labels and ends of line in the middle, characters of one to four bytes.
PIECES = [*WORDS, " ", " ", "\t", "\0", "\r", "__label__", "b", "né", "語", "😀", "<", ">", "\u3000"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=40).map(
    lambda text: text.replace("\n", " ")
)


def expect_equal(model: FastTextModel, peer: Any, texts: list[str]) -> None:
    labels, likely = model.predict(texts)
    for text, label, p in zip(texts, labels, likely, strict=True):
        expected = peer.predict(f"{text}\n", len(model.labels), 0.0, "strict")
        if not expected:
            assert (label, p) == (None, 0.0)
            continue
        assert p == pytest.approx(expected[0][0], abs=1e-4)
        # Two labels that are as good as equally likely may change places by the last digit of a sum.
        assert label in [name for value, name in expected if value >= expected[0][0] - 1e-4]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_the_model_of_languages_which_is_quantized_and_pruned(texts: list[str]) -> None:
    expect_equal(OURS, THEIRS, texts)


@pytest.mark.parametrize("loss", fasttext_file.LOSSES)
@pytest.mark.parametrize(
    ("buckets", "pieces", "neighbours"), [(0, (0, 0), 1), (7, (0, 0), 3), (50, (1, 3), 2), (50, (3, 6), 1)]
)
@pytest.mark.parametrize("has_end", [True, False])
def test_models_of_every_kind(
    tmp_path: Path, loss: str, buckets: int, pieces: tuple[int, int], neighbours: int, has_end: bool
) -> None:
    random = np.random.default_rng(1)
    words = WORDS if has_end else WORDS[1:]
    labels = [f"__label__{name}" for name in "abcde"]
    vectors = random.normal(size=(len(words) + buckets, 3))
    path = tmp_path / "model.bin"
    weights = random.normal(size=(5, 3)) * 3
    fasttext_file.write(
        path, words, labels, vectors, weights, loss=loss, buckets=buckets, pieces=pieces, neighbours=neighbours
    )
    texts = ["".join(random.choice(PIECES, random.integers(0, 12)).tolist()) for _ in range(100)]
    expect_equal(read_model(str(path)), fasttext.load_model(str(path)).f, ["", " ", *texts])


def test_scores_of_a_batch_equal_scores_of_single_documents() -> None:
    texts = ["the cat sat on the mat", "", "le chat est là", "猫がいる", "the the the"]
    alone = [OURS.predict([text]) for text in texts]
    assert OURS.predict(texts) == ([label for [label], _ in alone], [p for _, [p] in alone])
    assert OURS.predict([]) == ([], [])


def test_a_model_that_is_not_a_classifier_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    fasttext_file.train(path, {"__label__a": ["x"], "__label__b": ["y"]})
    good = path.read_bytes()
    for content, message in [
        (b"", "ends too early"),
        (b"PK" + good, "does not begin as one"),
        (good[:100], "ends too early"),
        (good[:-1], "ends too early"),
        (good[:36] + b"\x01" + good[37:], "trained for vectors of words"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"not a fastText classifier: .*{message}"):
            read_model(str(path))
