"""Each filter: a text, its score, and the verdict. No text at all is a text too."""

import pytest

from penstock.testing import assert_stage_contract, make_batch, run_stage
from penstock.text import (
    BoilerPlateStringFilter,
    CommonEnglishWordsFilter,
    DocumentFilter,
    NonAlphaNumericFilter,
    RepeatedLinesFilter,
    ScoreFilter,
    WordCountFilter,
)

WORDS = WordCountFilter(min_words=2, max_words=3)
ALPHANUMERIC = NonAlphaNumericFilter()
LINES = RepeatedLinesFilter()
BOILERPLATE = BoilerPlateStringFilter()
ENGLISH = CommonEnglishWordsFilter()
ALL_ENGLISH = CommonEnglishWordsFilter(stop_at_false=False)
NO_TEXT = [None, "", " \n\t \n\n "]

TABLE: list[tuple[DocumentFilter, str, float, bool]] = [
    (WORDS, "one", 1, False),
    (WORDS, "one two", 2, True),
    (WORDS, "one\ntwo\tthree", 3, True),
    (WORDS, "one two three four", 4, False),
    (WORDS, "", 0, False),
    (WORDS, " \n\t ", 0, False),
    (WordCountFilter(min_words=0), "", 0, True),
    (WordCountFilter(), "word " * 50, 50, True),
    (WordCountFilter(), "word " * 49, 49, False),
    (ALPHANUMERIC, "abc1?!,.\n", 0.0, True),
    (ALPHANUMERIC, "abc#", 0.25, True),
    (ALPHANUMERIC, "ab##", 0.5, False),
    (ALPHANUMERIC, "a b", 1 / 3, False),
    (ALPHANUMERIC, "漢字", 1.0, False),
    (ALPHANUMERIC, "", 1.0, False),
    (ALPHANUMERIC, "    ", 1.0, False),
    (LINES, "a\nb\nc", 1.0, True),
    (LINES, "a\na\nb\na", 0.5, False),
    (LINES, "a\n\n\na\n \nb", 2 / 3, False),
    (LINES, "\n".join([*"abcdefg", "a", "a", "a"]), 0.7, True),
    (LINES, "", 1.0, True),
    (LINES, " \n \n", 1.0, True),
    (BOILERPLATE, "Read our PRIVACY POLICY", 1.0, False),
    (BOILERPLATE, "one\n\ntwo\n\nthis site uses cookies", 1 / 3, True),
    (BOILERPLATE, "one\n\nterms of use", 0.5, False),
    (BOILERPLATE, "good\n\ngood\n\ngood\n\nLorem Ipsum dolor", 1.0, False),
    (BOILERPLATE, "nothing of the kind", 0.0, True),
    (BOILERPLATE, "", 0.0, True),
    (BOILERPLATE, "\n\n \n\n", 0.0, True),
    (ENGLISH, "the name of the rose", 2, True),
    (ALL_ENGLISH, "the name of the rose", 3, True),
    (ENGLISH, "der Name der Rose", 0, False),
    (ENGLISH, "one of many", 1, False),
    (ENGLISH, "THE NAME OF THE ROSE", 0, False),
    (ENGLISH, "", 0, False),
    (ENGLISH, "   ", 0, False),
]


@pytest.mark.parametrize(("rule", "text", "score", "kept"), TABLE)
def test_score_and_verdict(rule: DocumentFilter, text: str, score: float, kept: bool) -> None:
    found = rule.score_document(text)
    assert found == pytest.approx(score)
    assert rule.keep_document(found) is kept


@pytest.mark.parametrize("rule", [WORDS, ALPHANUMERIC, LINES, BOILERPLATE, ENGLISH], ids=lambda rule: rule.name)
def test_every_filter_takes_documents_without_text(rule: DocumentFilter) -> None:
    # One such document crashes at least ten filters of the incumbent with a division by zero.
    stage = ScoreFilter(rule, score_field="score")
    everything = [
        kept for invert in (False, True) for kept in run_stage(ScoreFilter(rule, invert=invert), make_batch(NO_TEXT))
    ]
    assert sum(batch.num_items for batch in everything) == len(NO_TEXT), "each is either kept or dropped"
    for invert in (False, True):
        [one] = run_stage(ScoreFilter(rule, invert=invert), make_batch([None]))
        [other] = run_stage(ScoreFilter(rule, invert=invert), make_batch([""]))
        assert one.num_items == other.num_items, "a null document is an empty one"
    assert_stage_contract(stage, make_batch(["some words of a text", "the the\nthe"]))


def test_the_bounds_are_the_users() -> None:
    assert NonAlphaNumericFilter(0.5).keep_document(0.5)
    assert RepeatedLinesFilter(0.5).keep_document(0.5)
    assert not BoilerPlateStringFilter(max_boilerplate_string_ratio=0.1).keep_document(0.2)
    assert CommonEnglishWordsFilter(min_num_common_words=1).keep_document(1)


def test_a_language_that_cannot_be_split_into_words_is_refused() -> None:
    with pytest.raises(ValueError, match="lang='zh'"):
        WordCountFilter(lang="zh")
