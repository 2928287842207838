"""Language and quality filters with real fastText models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fasttext_file import train

from penstock import DocumentBatch
from penstock.errors import InputError, MissingExtraError
from penstock.testing import assert_stage_contract, make_batch, run_stage
from penstock.text import FastTextLangId, FastTextQualityFilter, ScoreFilter

ENGLISH = "It was the best of times,\nit was the worst of times."
FRENCH = "Longtemps, je me suis couché de bonne heure.\nParfois, à peine ma bougie éteinte."
JAPANESE = "吾輩は猫である。名前はまだ無い。\nどこで生れたか頓と見当がつかぬ。"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fasttext") / "quality.bin"
    good = ["the theorem follows from the lemma", "we prove the lemma first"]
    train(path, {"__label__hq": good, "__label__lq": ["buy now buy cheap", "click now for cheap pills"]})
    return path


def table(stage: ScoreFilter, batch: DocumentBatch) -> dict[str, list[Any]]:
    [kept] = run_stage(stage, batch)
    columns: dict[str, list[Any]] = kept.to_pyarrow().to_pydict()  # type: ignore[attr-defined]
    return columns


def test_languages_are_told_by_the_model_that_comes_with_the_package() -> None:
    batch = make_batch([ENGLISH, FRENCH, JAPANESE, "", " \n", None])
    kept = table(ScoreFilter(FastTextLangId(), score_field="language"), batch)
    assert kept["id"] == ["doc-0", "doc-1", "doc-2"]
    assert [score[-5:] for score in kept["language"]] == ["'en']", "'fr']", "'ja']"]
    all_scores = table(ScoreFilter(FastTextLangId(min_langid_score=0), score_field="language"), batch)["language"]
    assert all_scores[3:] == ["[0.0, 'und']"] * 3
    assert_stage_contract(ScoreFilter(FastTextLangId(), score_field="language"), batch)


def test_one_language_is_kept() -> None:
    batch = make_batch([ENGLISH, FRENCH, JAPANESE])
    assert table(ScoreFilter(FastTextLangId(lang="FR")), batch)["id"] == ["doc-1"]


@pytest.mark.parametrize(
    ("lang", "score", "kept"),
    [
        ("eng", "[0.9, 'eng_Latn']", True),
        ("eng_latn", "[0.9, 'eng_Latn']", True),
        ("eng_Cyrl", "[0.9, 'eng_Latn']", False),
        ("en", "[0.9, 'eng_Latn']", False),
        ("en", "[0.2, 'en']", False),
        ("", "[0.9, 'fr']", True),
        (None, (0.3, "fr"), True),
    ],
)
def test_codes_with_and_without_a_script(lang: str | None, score: Any, kept: bool) -> None:
    assert FastTextLangId(lang=lang).keep_document(score) is kept


def test_quality_follows_the_words(model: Path) -> None:
    quality = FastTextQualityFilter(model)
    quality.load_model()
    good, bad, unknown, empty = quality.score_documents(["the lemma\nwe prove", "cheap pills", "", "__label__hq"])
    assert good > 0.9
    assert bad < 0.1
    assert unknown == pytest.approx(0.5, abs=1e-4)
    assert empty == pytest.approx(0.5, abs=1e-4)
    opposite = FastTextQualityFilter(model, label="__label__lq")
    opposite.load_model()
    assert opposite.score_document("cheap pills") == pytest.approx(1 - bad, abs=1e-4)


def test_a_document_without_known_words_scores_0(tmp_path: Path) -> None:
    train(tmp_path / "model.bin", {"__label__hq": ["a"], "__label__lq": ["b"]})
    content = (tmp_path / "model.bin").read_bytes()
    (tmp_path / "model.bin").write_bytes(content.replace(b"</s>", b"<no>"))  # lines no longer end in a known word
    quality = FastTextQualityFilter(tmp_path / "model.bin")
    quality.load_model()
    assert quality.score_document("") == pytest.approx(0, abs=1e-8)


def test_the_random_draw_depends_on_the_document_not_on_the_order(model: Path) -> None:
    texts = [f"cheap pills {number}" for number in range(400)]
    stage = ScoreFilter(FastTextQualityFilter(model), score_field="quality")
    forwards = table(stage, make_batch(texts))["text"]
    backwards = table(stage, make_batch(texts[::-1]))["text"]
    assert forwards == backwards[::-1]
    others = table(ScoreFilter(FastTextQualityFilter(model, seed=1)), make_batch(texts))["text"]
    assert forwards != others
    # Of documents that score 0, one in (1 + 1) ** alpha is kept; these score a little more.
    assert 25 < len(forwards) < 100
    assert_stage_contract(stage, make_batch(texts[:3]))


def test_documents_are_kept_with_the_probability_of_a_pareto_draw(model: Path) -> None:
    quality = FastTextQualityFilter(model, alpha=3)
    for score in (0.0, 0.5, 0.9):
        kept = sum(quality.keep_document(score + number * 2.0**-52) for number in range(20_000)) / 20_000
        assert kept == pytest.approx((2 - score) ** -3, abs=0.015)


def test_the_error_for_a_missing_or_broken_model_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = make_batch(["a"])
    with pytest.raises(InputError, match=r"no model file .*Set model_path"):
        run_stage(ScoreFilter(FastTextQualityFilter(tmp_path / "none.bin")), batch)
    (tmp_path / "broken.bin").write_bytes(b"not a model")
    with pytest.raises(InputError, match=r"broken.bin: not a fastText classifier"):
        run_stage(ScoreFilter(FastTextQualityFilter(tmp_path / "broken.bin")), batch)
    with pytest.raises(ValueError, match="Set model_path"):
        FastTextQualityFilter()
    monkeypatch.setattr("penstock.text.filters.fasttext.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'penstock\[lang\]'"):
        FastTextLangId()


def test_a_slice_of_a_chunked_column_is_scored_correctly() -> None:
    chunks = pa.chunked_array([[ENGLISH], [FRENCH, JAPANESE]])
    batch = DocumentBatch("test", pa.table({"text": chunks}).slice(1))
    assert table(ScoreFilter(FastTextLangId(lang="ja")), batch)["text"] == [JAPANESE]
