"""Each filter: a text, its score, and the decision; empty documents included."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock.text
from penstock.errors import InputError, MissingExtraError
from penstock.extras import is_installed
from penstock.testing import assert_stage_contract, make_batch, run_stage
from penstock.text import (
    AlphaFilter,
    BoilerPlateStringFilter,
    BulletsFilter,
    CommonEnglishWordsFilter,
    DocumentFilter,
    DuplicateLineCharactersFilter,
    EllipsisFilter,
    ForbiddenTextFilter,
    GeneralCommentToCodeFilter,
    HistogramFilter,
    HTMLBoilerplateFilter,
    LinePunctuationFilter,
    LongWordFilter,
    MeanWordLengthFilter,
    NewLinesToWordsFilter,
    NonAlphaNumericFilter,
    NumberOfLinesOfCodeFilter,
    NumbersFilter,
    ParenthesesFilter,
    PerExtensionFilter,
    PornographicUrlsFilter,
    PunctuationFilter,
    PythonCommentToCodeFilter,
    RepeatedLinesByCharFilter,
    RepeatedLinesFilter,
    RepeatedParagraphsByCharFilter,
    RepeatedParagraphsFilter,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
    Score,
    ScoreFilter,
    SentenceCountFilter,
    ShortLinesFilter,
    StopWordsFilter,
    SubstringFilter,
    SymbolsToWordsFilter,
    TokenizerFertilityFilter,
    UrlsFilter,
    WhiteSpaceFilter,
    WordCountFilter,
    WordsWithoutAlphabetsFilter,
    XMLHeaderFilter,
)
from penstock.text.filters.document_filter import ScannedFilter, is_scanned, keeps_arrays

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
    (NumbersFilter(), "12 apples", 2 / 9, False),
    (NumbersFilter(), "twelve ٣ apples", 1 / 15, True),
    (NumbersFilter(), "x²", 0.0, True),
    (NumbersFilter(), "", 1.0, False),
    (UrlsFilter(), "see https://a.bc", 0.75, False),
    (UrlsFilter(), "see https://", 0.0, True),
    (UrlsFilter(), "", 1.0, False),
    (UrlsFilter(url_regex=r"www\S+"), "www.a.bc", 1.0, False),
    (PornographicUrlsFilter(), "http://porn.example", 1, False),
    (PornographicUrlsFilter(), "no porn, no http", 0, True),
    (PornographicUrlsFilter(url_regex=r"www\S+"), "www.porn.example", 1, False),
    (PornographicUrlsFilter(), "", 0, True),
    (WhiteSpaceFilter(), "a b", 1 / 3, False),
    (WhiteSpaceFilter(), "ab cd", 0.2, True),
    (WhiteSpaceFilter(), "ab\u3000cd", 0.0, True),
    (WhiteSpaceFilter(), "", 1.0, False),
    (ParenthesesFilter(), "f(x)", 0.5, False),
    (ParenthesesFilter(), "⟨x⟩", 2 / 3, False),
    (ParenthesesFilter(), "", 1.0, False),
    (LongWordFilter(max_word_length=3), "one four", 4, False),
    (LongWordFilter(), "", 0, True),
    (MeanWordLengthFilter(), "a quick fox", 3.0, True),
    (MeanWordLengthFilter(), "a b", 1.0, False),
    (MeanWordLengthFilter(), "extraordinarily", 15.0, False),
    (MeanWordLengthFilter(), "", 0.0, False),
    (SymbolsToWordsFilter(), "# of things ...", 0.5, False),
    (SymbolsToWordsFilter(), "## of things", 0.0, True),
    (SymbolsToWordsFilter(), "", 0.0, True),
    (WordsWithoutAlphabetsFilter(), "2 + two", 1 / 3, False),
    (WordsWithoutAlphabetsFilter(), "мельница 水車", 1.0, True),
    (WordsWithoutAlphabetsFilter(), "", 1.0, True),
    (BulletsFilter(), "• a\n ‣ b\nc", 2 / 3, True),
    (BulletsFilter(), "• a\n ‣ b", 1.0, False),
    (BulletsFilter(), "", 0.0, True),
    (PunctuationFilter(), "Home\nWelcome! ", 0.5, True),
    (PunctuationFilter(), "Home", 1.0, False),
    (PunctuationFilter(), "", 0.0, True),
    (EllipsisFilter(), "And then...\nHe woke.", 0.5, False),
    (EllipsisFilter(), "Click to READ MORE", 1.0, False),
    (EllipsisFilter(), "", 0.0, True),
    (RepeatedParagraphsFilter(), "a\n\na\n\nb\n\na", 0.5, False),
    (RepeatedParagraphsFilter(), "", 1.0, True),
    (RepeatedLinesByCharFilter(), "long\nlong", 0.5, False),
    (RepeatedLinesByCharFilter(), "", 1.0, True),
    (RepeatedParagraphsByCharFilter(), "long\n\nlong", 0.5, False),
    (RepeatedParagraphsByCharFilter(), "", 1.0, True),
    (RepeatingTopNGramsFilter(n=2), "to be or not to be", 10 / 18, False),
    (RepeatingTopNGramsFilter(n=2), "one", 1.0, False),
    (RepeatingTopNGramsFilter(n=2), "", 1.0, False),
    # Two bigrams are equally frequent; the first one counts.
    (RepeatingTopNGramsFilter(n=2), "a b x longer one y longer one a b", 6 / 33, True),
    (RepeatingDuplicateNGramsFilter(n=2), "to be or not to be", 5 / 18, False),
    (RepeatingDuplicateNGramsFilter(n=3), "one two", 1.0, False),
    (RepeatingDuplicateNGramsFilter(n=3), "", 1.0, False),
    (SubstringFilter("http", "prefix"), "https", 1, True),
    (SubstringFilter("s", "suffix"), "https", 1, True),
    (SubstringFilter("ttp", "any"), "https", 1, True),
    (SubstringFilter("ttp", "prefix"), "https", 0, False),
    (SubstringFilter("a", "any"), "", 0, False),
    (NumberOfLinesOfCodeFilter(min_lines=2), "a\nb", 2, True),
    (NumberOfLinesOfCodeFilter(), "", 1, False),
    (AlphaFilter(), "[1, 2]", 0.0, False),
    (AlphaFilter(), "x = 水", 0.4, True),
    (AlphaFilter(), "", 0.0, False),
    (XMLHeaderFilter(), '<?xml version="1.0"?>', 1, False),
    (XMLHeaderFilter(5), '<?xml version="1.0"?>', 0, True),
    (XMLHeaderFilter(), "", 0, True),
    (PythonCommentToCodeFilter(), '"""Docs."""\nx = 1\n', 5 / 18, True),
    (PythonCommentToCodeFilter(), "x = 1\n", 0.0, False),
    (PythonCommentToCodeFilter(), "not python at all\n", 0.0, False),
    (PythonCommentToCodeFilter(), "x = '''", 0.0, False),
    (PythonCommentToCodeFilter(), "\0", 0.0, False),
    (PythonCommentToCodeFilter(), "", 0.0, False),
    (LinePunctuationFilter(), "Home\n欢迎。 ", 0.5, True),
    (LinePunctuationFilter(), "Home", 0.0, False),
    (LinePunctuationFilter(exclude_zero=True), "Home", 0.0, True),
    (LinePunctuationFilter(), "", 0.0, False),
    (ShortLinesFilter(), "short\n" + "x" * 31, 0.5, True),
    (ShortLinesFilter(), "short", 1.0, False),
    (ShortLinesFilter(short_line_length=3), "short", 0.0, True),
    (ShortLinesFilter(), "", 1.0, False),
    (DuplicateLineCharactersFilter(), "long\nlong", 0.5, False),
    (DuplicateLineCharactersFilter(), "", 0.0, True),
    (NewLinesToWordsFilter(), "one\ntwo", 0.5, False),
    (NewLinesToWordsFilter(), "", 1.0, False),
    (StopWordsFilter(), "the name of the rose", 2, True),
    (StopWordsFilter(), "the the the", 1, False),
    (StopWordsFilter(stop_words=["der", "die"]), "die Kuh, der Hund", 2, True),
    (StopWordsFilter(), "", 0, False),
    (SentenceCountFilter(2), "One. Two", 1, False),
    (SentenceCountFilter(2), 'He said "no." So what?', 2, True),
    (SentenceCountFilter(), "", 0, False),
    (ForbiddenTextFilter("lorem ipsum"), "Lorem Ipsum, lorem ipsum", 2, False),
    (ForbiddenTextFilter("{"), "", 0, True),
]
PURE = list(dict.fromkeys(rule for rule, *_ in TABLE))
SCANNED = [rule for rule in PURE if is_scanned(rule)]


@pytest.mark.parametrize(("rule", "text", "score", "kept"), TABLE)
def test_score_and_verdict(rule: DocumentFilter, text: str, score: float, kept: bool) -> None:
    found = rule.score_document(text)
    assert found == pytest.approx(score)
    assert rule.keep_document(found) is kept


def test_every_filter_of_the_package_is_in_the_table() -> None:
    listed = {getattr(penstock.text, name) for name in penstock.text.__all__}
    filters = {cls for cls in listed if isinstance(cls, type) and issubclass(cls, DocumentFilter)}
    filters -= {DocumentFilter, ScannedFilter}
    need_more = {
        GeneralCommentToCodeFilter, HTMLBoilerplateFilter, HistogramFilter, PerExtensionFilter, TokenizerFertilityFilter,
    }  # fmt: skip
    need_a_model = {cls for cls in filters if cls.__name__.startswith(("FastText", "TokenCount"))}
    assert filters - need_more - need_a_model == {type(rule) for rule in PURE}


@pytest.mark.parametrize("rule", PURE, ids=lambda rule: rule.name)
def test_every_filter_accepts_documents_without_text(rule: DocumentFilter) -> None:
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


TEXT = st.text(alphabet=st.sampled_from("ab .#\n•…(İKé漢3\u00a0\u3000"), max_size=40) | st.lists(
    st.sampled_from(["the", "of", "use coo\u212aies", "Privacy policy", "read more", "http://a.b", "\n", "\n\n", " "]),
    max_size=30,
).map(" ".join)


@settings(deadline=None, max_examples=50)
@given(texts=st.lists(TEXT, min_size=1, max_size=4))
@pytest.mark.parametrize("rule", SCANNED, ids=lambda rule: f"{rule.name} {rule.parameters()}")
def test_the_scan_scores_as_the_filter_itself_does(rule: DocumentFilter, texts: list[str]) -> None:
    [scored] = run_stage(Score(rule, "score"), make_batch(texts))
    expected = [rule.score_document(text) for text in texts]
    assert scored.data["score"].to_pylist() == expected
    [kept] = run_stage(ScoreFilter(rule), make_batch(texts))
    assert kept.data["text"].to_pylist() == [
        text for text, score in zip(texts, expected, strict=True) if rule.keep_document(score)
    ]


def test_a_phrase_with_non_ascii_letters_that_lower_to_ascii_is_found() -> None:
    # The lower case of the Kelvin sign is a plain k.
    [scored] = run_stage(Score(BOILERPLATE, "score"), make_batch(["We use coo\u212aies.", "We use cooxies."]))
    assert scored.data["score"].to_pylist() == [1.0, 0.0]


def test_an_overridden_method_of_a_subclass_is_used() -> None:
    class Doubled(WordCountFilter):
        def score_document(self, text: str) -> int:
            return 2 * super().score_document(text)

    class Picky(WordCountFilter):
        def keep_document(self, score: float) -> bool:
            return score in (1, 3)  # not a question to ask of an array

    assert (is_scanned(Doubled()), keeps_arrays(Doubled())) == (False, True)
    assert (is_scanned(Picky()), keeps_arrays(Picky())) == (True, False)
    batch = make_batch(["a", "a b", "a b c"])
    [kept] = run_stage(ScoreFilter(Doubled(min_words=4), score_field="words"), batch)
    assert kept.data["words"].to_pylist() == [4, 6]
    [kept] = run_stage(ScoreFilter(Picky(), score_field="words"), batch)
    assert kept.data["words"].to_pylist() == [1, 3]


def test_parameters_are_the_constructor_arguments() -> None:
    assert WORDS.parameters() == {"min_words": 2, "max_words": 3, "lang": "en"}
    assert RepeatingTopNGramsFilter(n=3).parameters() == {"n": 3, "max_repeating_ngram_ratio": 0.2, "lang": "en"}


def test_thresholds_can_be_set() -> None:
    assert NonAlphaNumericFilter(0.5).keep_document(0.5)
    assert RepeatedLinesFilter(0.5).keep_document(0.5)
    assert not BoilerPlateStringFilter(max_boilerplate_string_ratio=0.1).keep_document(0.2)
    assert CommonEnglishWordsFilter(min_num_common_words=1).keep_document(1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SubstringFilter("a", "middle"), "position is 'prefix', 'suffix' or 'any', not 'middle'"),  # type: ignore[arg-type]
        (lambda: RepeatingTopNGramsFilter(n=0), "at least 1; got 0"),
        (lambda: RepeatingDuplicateNGramsFilter(n=-1), "at least 1; got -1"),
        (lambda: TokenizerFertilityFilter(), "path_to_tokenizer is the file"),
    ],
)
def test_invalid_filter_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("lang", "text", "words"), [("zh", "我来到北京清华大学", 4), ("ja", "すもももももももものうち", 7)]
)
def test_some_languages_are_split_by_dictionary(lang: str, text: str, words: int) -> None:
    if not is_installed("cjk"):
        with pytest.raises(MissingExtraError, match=r"pip install 'penstock\[cjk\]'"):
            WordCountFilter(lang=lang)
        return
    rule = WordCountFilter(min_words=2, lang=lang)
    [kept] = run_stage(ScoreFilter(rule, score_field="words"), make_batch([text, ""]))
    assert kept.data["words"].to_pylist() == [words]


def test_comments_of_other_languages() -> None:
    if not is_installed("code"):
        with pytest.raises(MissingExtraError, match=r"pip install 'penstock\[code\]'"):
            GeneralCommentToCodeFilter("text/x-c")
        return
    rule = GeneralCommentToCodeFilter("text/x-c")
    assert rule.score_document("int x; // one") == 4 / 13
    assert rule.score_document("") == 0.0
    assert not rule.keep_document(rule.score_document("/* never closed"))
    with pytest.raises(ValueError, match="no parser for language='text/x-d'"):
        GeneralCommentToCodeFilter("text/x-d")


def test_pages_that_are_mostly_markup() -> None:
    rule = HTMLBoilerplateFilter(min_lang_content_num_chars=5)
    if not is_installed("code"):
        with pytest.raises(MissingExtraError, match=r"pip install 'penstock\[code\]'"):
            rule.score_document("<p>Hello</p>")
        return
    assert rule.score_document("<p>Hello there</p><script>x</script>") == 11 / 36
    assert rule.score_document("<p>Hi</p>") == rule.score_document("") == 0.0


def test_bounds_per_extension(tmp_path: Path) -> None:
    table = tmp_path / "code_meta.csv"
    table.write_text(
        "language,extension,Include,Long_line_threshold,Alphanum_threshold,Alpha filter\n"
        "python,py,1,20,0.25,0.25\nc-sharp,cs,0,,,\nc-sharp,csx,1,,,\n"
    )
    python = PerExtensionFilter("Python", "py", str(table))
    assert [python.score_document(text) for text in ("x = one", "x" * 21, "######", "")] == [1, 0, 0, 0]
    assert PerExtensionFilter("C#", "csx", str(table)).score_document("") == 1
    assert PerExtensionFilter("C#", "cs", str(table)).score_document("int x;") == 0
    assert PerExtensionFilter("C#", "other", str(table)).score_document("int x;") == 0
    assert [python.keep_document(score) for score in (1, 0, None)] == [True, False, False]
    with pytest.raises(ValueError, match="does not list the language 'Cobol'"):
        PerExtensionFilter("Cobol", "cob", str(table))
    with pytest.raises(InputError, match=r"cannot read the table no_such\.csv"):
        PerExtensionFilter("Python", "py", "no_such.csv")


def test_characters_of_a_language(tmp_path: Path) -> None:
    (tmp_path / "en").write_text("e\nt\na\n \n] the rest is rare\nq\n")
    rule = HistogramFilter("en", cache_dir=str(tmp_path))
    assert [rule.score_document(text) for text in ("eat tea", "quiz", "", "  \n")] == [1, 0, 0, 0]
    with pytest.raises(InputError, match="no histogram of lang='de'"):
        HistogramFilter("de", cache_dir=str(tmp_path))
