"""Extract text from pages: three algorithms, many languages, and hostile pages."""

import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from warc_files import ENGLISH, page, table

from penstock.testing import assert_stage_contract, make_batch, run_stage, run_stage_with_rejections
from penstock.text import (
    CommonCrawlHTMLExtractor,
    DocumentExtractor,
    HTMLExtractionStage,
    HTMLExtractorAlgorithm,
    JusTextExtractor,
    ResiliparseExtractor,
    Skipped,
    TrafilaturaExtractor,
    get_stop_list_dict,
)
from penstock.text.extract.guard import Guard
from penstock.text.extract.html_extractor import detect_language
from penstock.text.extract.outcome import Damaged

GERMAN = (
    "Der Fluss war seit zwei Tagen gestiegen, als die Bürgermeisterin alle Leute, die in der Nähe des Wassers wohnten, "
    "bat, ihre Häuser zu verlassen und in die Schule auf dem Berg zu gehen, wo es für alle etwas zu essen gab."
)
JAPANESE = (
    "川の水は二日間にわたって上がり続け、町長は川の近くに住むすべての人々に家を離れて丘の上の学校に行くように頼みました。"
    "そこには全員のための食べ物と寝る場所がありました。"
)
CHINESE_TRADITIONAL = (
    "河水已經連續上漲了兩天，鎮長請所有住在河邊的人離開他們的房子，到山上的學校去，那裡有足夠的食物和睡覺的地方給大家。"
    "後來雨停了，人們慢慢地回到了自己的家裡，開始打掃房間。"
)
ALGORITHMS = ["justext", "resiliparse", "trafilatura"]


def extract(html: str | bytes, algorithm: str) -> Any:
    record = {"url": "http://example.org/", "warc_id": "1", "source_id": "a.warc.gz", "content": html}
    return CommonCrawlHTMLExtractor(algorithm).extract(record)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("text", "language", "name"),
    [(ENGLISH, "en", "ENGLISH"), (GERMAN, "de", "GERMAN"), (JAPANESE, "ja", "JAPANESE"), (CHINESE_TRADITIONAL, "zh", "CHINESET")],
)  # fmt: skip
def test_the_text_is_found_and_the_menu_is_not(algorithm: str, text: str, language: str, name: str) -> None:
    found = extract(page(text, lang=language).encode(), algorithm)
    assert text in found["text"]
    assert found["language"] == name
    assert found["url"] == "http://example.org/"
    if language == "en":
        assert "About" not in found["text"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "html", [b"", b" ", b"\0\0\0", b"<html></html>", b"<?xml version='1.0' encoding='x'?><html><body></body></html>", b"<" * 99]
)  # fmt: skip
def test_a_page_without_text_is_skipped_with_a_reason(algorithm: str, html: bytes) -> None:
    assert isinstance(extract(html, algorithm), Skipped)


def test_pages_in_an_unwanted_language_are_counted_by_language() -> None:
    extractor = CommonCrawlHTMLExtractor("resiliparse", stop_lists=get_stop_list_dict(["English"]))
    assert extractor.extract({"content": page(GERMAN)}) == Skipped("no stop list for the language: GERMAN")


def test_a_page_does_not_depend_on_those_before_it() -> None:
    html = page(ENGLISH, GERMAN, ENGLISH + " And so they did.")
    extractor = CommonCrawlHTMLExtractor("trafilatura")
    results = [extractor.extract({"content": html}) for _ in range(5)]
    assert all(result == results[0] for result in results)


def test_settings_reach_the_algorithms() -> None:
    menu = page("Home", "Contact", "Prices")
    assert isinstance(extract(menu, "resiliparse"), Skipped)
    everything = CommonCrawlHTMLExtractor(ResiliparseExtractor(required_stopword_density=0, main_content=False))
    assert "Prices" in str(everything.extract({"content": menu}))
    assert "Prices" in str(CommonCrawlHTMLExtractor(JusTextExtractor(is_boilerplate=False)).extract({"content": menu}))
    linked = page(ENGLISH + ' <a href="http://example.org/more">more</a>', ENGLISH)
    assert "http://example.org/more" in str(
        TrafilaturaExtractor(include_links=True).extract_text(linked, frozenset("the"), "THAI")
    )


def test_a_wrong_name_is_refused_with_the_right_ones() -> None:
    with pytest.raises(ValueError, match="Did you mean 'trafilatura'"):
        CommonCrawlHTMLExtractor("trafilatua")
    with pytest.raises(ValueError, match="main_content to it instead"):
        CommonCrawlHTMLExtractor(ResiliparseExtractor(), {"main_content": False})
    with pytest.raises(ValueError, match="no stop list for 'Klingon'"):
        get_stop_list_dict(["Klingon"])


def test_odd_characters_do_not_stop_the_detection_of_a_language() -> None:
    assert detect_language(f"\x01\ufdd0{ENGLISH}\ud800") == "ENGLISH"


def test_the_stage_keeps_documents_with_text_and_their_columns() -> None:
    batch = make_batch([page(ENGLISH), "<p>menu</p>", None, page(GERMAN, lang="de")], text_field="html")
    [made] = run_stage(HTMLExtractionStage(), batch)
    assert table(made).to_pylist() == [
        {"id": "doc-0", "text": ENGLISH, "language": "ENGLISH"},
        {"id": "doc-3", "text": GERMAN, "language": "GERMAN"},
    ]
    [kept] = run_stage(HTMLExtractionStage(keep_html=True), batch)
    assert table(kept).column_names == ["id", "html", "text", "language"]


def test_the_stage_says_which_documents_it_dropped() -> None:
    batch = make_batch([page(ENGLISH), "<p>menu</p>", page(ENGLISH)], text_field="html")
    batch.source_rows = np.array([5, 6, 7])
    stage = HTMLExtractionStage()
    stage._keeps_ledger = True
    stage.setup()
    made = stage.process(batch)
    stage.teardown()
    [verdicts] = stage.take_verdicts()
    assert verdicts.rows.tolist() == [5, 6, 7]
    assert verdicts.kept.tolist() == [True, False, True]
    assert made.source_rows is not None
    assert made.source_rows.tolist() == [5, 7]


def test_the_stage_keeps_the_stage_contract() -> None:
    assert_stage_contract(HTMLExtractionStage(), make_batch([page(ENGLISH)] * 3, text_field="html"))


class Treacherous(HTMLExtractorAlgorithm):
    """Does what a page asks for."""

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        if "hang" in html:
            while True:
                pass
        if "crash" in html:
            os.abort()
        if "raise" in html:
            raise RecursionError("too deep")
        print("noise on standard output")
        return [html]


def test_a_page_that_hangs_crashes_or_raises_costs_only_that_page(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = HTMLExtractionStage(Treacherous(), html_field="page")
    monkeypatch.setattr(type(stage._extractor), "cpu_limit_s", 0.5)
    pages = [
        f"The page that {word} is one of those which are here for you."
        for word in ("reads", "hangs", "crashes", "raises", "reads")
    ]
    [made], rejections = run_stage_with_rejections(stage, make_batch(pages, text_field="page"))
    assert table(made)["id"].to_pylist() == ["doc-0", "doc-4"]
    assert [(one.position, one.reason) for one in rejections] == [
        (1, "_PageExtractor took more than 0.5 s of CPU time"),
        (2, "_PageExtractor crashed (SIGABRT)"),
        (3, "_PageExtractor failed: RecursionError: too deep"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["resiliparse", "justext"])
def test_real_pages_that_make_parsers_hang_are_survived(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = HTMLExtractionStage(algorithm)
    monkeypatch.setattr(type(stage._extractor), "cpu_limit_s", 2.0)
    deep = "<html><body>" + "<div>" * 100_000 + ENGLISH
    attributes = "<p " + " ".join(f"a{number}=1" for number in range(100_000)) + f">{ENGLISH}"
    [made], rejections = run_stage_with_rejections(
        stage, make_batch([deep, attributes, page(ENGLISH)], text_field="html")
    )
    assert "doc-2" in table(made)["id"].to_pylist()
    assert any("CPU time" in one.reason for one in rejections)


class OfThisScript(DocumentExtractor):
    cpu_limit_s: ClassVar[float | None] = 5.0

    def extract(self, record: dict[str, Any]) -> dict[str, Any]:
        return {"process": os.getpid(), **record}


def test_a_guard_runs_extractors_defined_in_a_users_script() -> None:
    guard = Guard(OfThisScript(), 5.0)
    try:
        first, second = guard.extract_all([{"a": 1}, {"a": 2}])
        assert isinstance(first, dict)
        assert isinstance(second, dict)
        assert first["process"] == second["process"] != os.getpid()
        guard.close()
        [third] = guard.extract_all([{"a": 3}])
        assert isinstance(third, dict)
        assert third["a"] == 3
    finally:
        guard.close()


def test_a_page_that_no_encoding_fits_is_damaged(tmp_path: Path) -> None:
    noise = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D]) * 100
    assert extract(noise, "resiliparse") == Damaged("no encoding fits the page")
