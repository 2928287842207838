"""Rule sets: the rules they expand into, and the pages these keep."""

from typing import Any

import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage
from penstock.plan.fuse import fuse
from penstock.testing import make_batch, run_stage
from penstock.text import C4LineRemover, C4Quality, FineWebQuality, GopherQuality, GopherRepetition, Modify

PROSE = (
    "The mill at the river has been there for as long as anybody can remember. In spring, when snow melts in the "
    "mountains, its wheel turns day and night, and farmers bring what is left of last year's rye. My grandmother used "
    "to tell us children that a water spirit lived below the weir, so we never went near it after dark. Today "
    "a small museum keeps those old stones, and visitors may grind a handful of wheat with their own hands. Come!"
)
ALL = [GopherQuality(), GopherRepetition(), C4Quality(), FineWebQuality()]


def kept(stage: ProcessingStage[Any, Any], texts: list[str | None]) -> list[str | None]:
    [result] = Pipeline("p", stages=[stage]).run(InlineExecutor(show_progress=False), [make_batch(texts)])
    assert isinstance(result, DocumentBatch)
    return result.to_pyarrow()["text"].to_pylist()  # type: ignore[no-any-return]


def dropped_by(stage: ProcessingStage[Any, Any], text: str | None) -> str:
    executor = InlineExecutor(show_progress=False)
    Pipeline("p", stages=[stage]).run(executor, [make_batch([text])])
    assert executor.last_summary is not None
    return next((count.stage for count in executor.last_summary.counters if count.dropped), "")


@pytest.mark.parametrize("stage", ALL, ids=lambda stage: stage.name)
def test_ordinary_prose_passes_and_no_text_does_not(stage: ProcessingStage[Any, Any]) -> None:
    assert kept(stage, [PROSE, None, "", " \n "]) == [PROSE]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Too short.", "word_count"),
        ("a " * 60, "mean_word_length"),
        ("extraordinarily " * 60, "mean_word_length"),
        (PROSE + " #" * 20, "symbols_to_words"),
        ("\n".join(f"• {PROSE[i:]}" for i in range(9)), "bullets"),
        (PROSE + "...", "ellipsis"),
        (PROSE + " 1234567" * 40, "words_without_alphabets"),
        ("alpha bravo charlie delta " * 20, "stop_words"),
        (PROSE, ""),
    ],
)
def test_gopher_names_the_rule_that_drops_a_page(text: str, rule: str) -> None:
    assert dropped_by(GopherQuality(), text) == rule


def test_gopher_repetition_looks_at_lines_paragraphs_and_n_grams() -> None:
    names = [stage.name for stage in GopherRepetition().decompose()]
    assert names == [
        "repeated_lines", "repeated_paragraphs", "repeated_lines_by_char", "repeated_paragraphs_by_char",
        "repeating_top_2_grams", "repeating_top_3_grams", "repeating_top_4_grams",
        *(f"repeating_duplicate_{n}_grams" for n in range(5, 11)),
    ]  # fmt: skip
    assert dropped_by(GopherRepetition(), "one line\n" * 9) == "repeated_lines"
    assert dropped_by(GopherRepetition(), PROSE + " and so on and" * 20).startswith("repeating_")


def test_a_rule_set_is_one_scan() -> None:
    stages = [*GopherQuality().decompose(), *GopherRepetition().decompose(), *FineWebQuality().decompose()]
    [pool] = fuse(stages)
    assert len(pool.steps) == 1
    assert len(pool.steps[0].parts()) == 24


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("\n".join(f"A heading of some length, number {i}" for i in range(9)), "line_punctuation"),
        ("\n".join(f"Short {i}." for i in range(9)), "short_lines"),
        (PROSE + "\n" + PROSE, "duplicate_line_characters"),
        ("\n\n".join(f"Considerably{'x' * 20} longer line, number {i}." for i in range(9)), "new_lines_to_words"),
    ],
)
def test_fineweb_names_the_rule_that_drops_a_page(text: str, rule: str) -> None:
    assert dropped_by(FineWebQuality(), text) == rule


def test_a_rule_can_be_turned_off() -> None:
    none: dict[str, Any] = dict.fromkeys(
        ("dup_line_frac", "dup_para_frac", "dup_line_char_frac", "dup_para_char_frac"), None
    )
    assert (
        GopherRepetition(**none, top_n_grams=(), dup_n_grams=((7, 0.5),)).decompose()[0].name
        == "repeating_duplicate_7_grams"
    )
    assert [stage.name for stage in FineWebQuality(None, short_line_thr=None, new_line_ratio=None).decompose()] == [
        "duplicate_line_characters"
    ]
    assert kept(GopherQuality(max_doc_words=None, max_avg_word_length=None), [PROSE]) == [PROSE]
    assert [stage.name for stage in C4Quality(min_num_sentences=None, filter_curly_bracket=False).decompose()] == [
        "c4_line_remover",
        "lorem_ipsum",
    ]


def test_c4_keeps_lines_that_are_sentences() -> None:
    page = "\n".join(
        [
            "Home",
            "  It was a dark night.[1]  ",
            "The rain fell in torrents...",
            "A line without a mark at its end",
            "Too short.",
            "Please enable JavaScript to see this page.",
            "We use cookies on this site.",
            f"A word of {'x' * 1001} letters.",
            'He asked: "What is that?"',
        ]
    )
    [changed] = run_stage(Modify(C4LineRemover()), make_batch([page, None, ""], url=["a", "b", "c"]))
    assert changed.data["text"].to_pylist() == ['It was a dark night.\nHe asked: "What is that?"', None, ""]
    assert changed.data["url"].to_pylist() == ["a", "b", "c"]
    everything = C4LineRemover(
        remove_citations=False,
        filter_no_terminal_punct=False,
        min_words_per_line=0,
        max_word_length=10**6,
        filter_javascript=False,
        filter_policy=False,
    )
    assert everything.modify_document(page) == page.replace("  ", "")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (PROSE + "\nLorem Ipsum dolor sit amet.", "lorem_ipsum"),
        (PROSE + "\nA function { has a body }.", "curly_bracket"),
        ("One sentence of some words.", "sentence_count"),
        (PROSE, ""),
    ],
)
def test_c4_names_the_rule_that_drops_a_page(text: str, rule: str) -> None:
    assert dropped_by(C4Quality(), text) == rule
