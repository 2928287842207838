"""Published rule sets: Gopher, C4, FineWeb. Each expands into filters that are counted and configured one by one.

The parameters have the names of datatrove; None turns a rule off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.core.composite import CompositeStage
from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage
from penstock.text.filters.document_filter import DocumentFilter
from penstock.text.filters.layout import (
    DuplicateLineCharactersFilter,
    ForbiddenTextFilter,
    LinePunctuationFilter,
    NewLinesToWordsFilter,
    SentenceCountFilter,
    ShortLinesFilter,
    StopWordsFilter,
)
from penstock.text.filters.lines import BulletsFilter, EllipsisFilter
from penstock.text.filters.repetition import (
    RepeatedLinesByCharFilter,
    RepeatedLinesFilter,
    RepeatedParagraphsByCharFilter,
    RepeatedParagraphsFilter,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
)
from penstock.text.filters.score_filter import ScoreFilter
from penstock.text.filters.words import (
    MeanWordLengthFilter,
    SymbolsToWordsFilter,
    WordCountFilter,
    WordsWithoutAlphabetsFilter,
)
from penstock.text.modifiers.c4_lines import C4LineRemover
from penstock.text.modifiers.modify import Modify

Stages = list[ProcessingStage[Any, Any]]
_ANY = float("inf")


class GopherQuality(CompositeStage[DocumentBatch, DocumentBatch]):
    """Apply the quality rules of Gopher (Rae et al. 2021): length, symbols, bullets, ellipses, letters, stop words.

    >>> [stage.name for stage in GopherQuality(max_bullet_lines_ratio=None).decompose()]
    ['word_count', 'mean_word_length', 'symbols_to_words', 'ellipsis', 'words_without_alphabets', 'stop_words']
    """

    name = "gopher_quality"

    def __init__(
        self,
        min_doc_words: int | None = 50,
        max_doc_words: int | None = 100000,
        min_avg_word_length: float | None = 3,
        max_avg_word_length: float | None = 10,
        max_symbol_word_ratio: float | None = 0.1,
        max_bullet_lines_ratio: float | None = 0.9,
        max_ellipsis_lines_ratio: float | None = 0.3,
        max_non_alpha_words_ratio: float | None = 0.8,
        min_stop_words: int | None = 2,
        stop_words: Sequence[str] | None = None,
        text_field: str = "text",
    ) -> None:
        self.text_field = text_field
        filters: list[DocumentFilter] = []
        if min_doc_words is not None or max_doc_words is not None:
            filters.append(WordCountFilter(min_doc_words or 0, _ANY if max_doc_words is None else max_doc_words))  # type: ignore[arg-type]
        if min_avg_word_length is not None or max_avg_word_length is not None:
            most = _ANY if max_avg_word_length is None else max_avg_word_length
            filters.append(MeanWordLengthFilter(min_avg_word_length or 0, most))
        if max_symbol_word_ratio is not None:
            filters.append(SymbolsToWordsFilter(max_symbol_word_ratio))
        if max_bullet_lines_ratio is not None:
            filters.append(BulletsFilter(max_bullet_lines_ratio))
        if max_ellipsis_lines_ratio is not None:
            filters.append(EllipsisFilter(max_ellipsis_lines_ratio))
        if max_non_alpha_words_ratio is not None:
            filters.append(WordsWithoutAlphabetsFilter(max_non_alpha_words_ratio))
        if min_stop_words is not None:
            filters.append(StopWordsFilter(min_stop_words, stop_words))
        self.filters = filters

    def decompose(self) -> Stages:
        """Return one stage per rule."""
        return _stages(self.filters, self.text_field)


class GopherRepetition(CompositeStage[DocumentBatch, DocumentBatch]):
    """Apply the repetition rules of Gopher (Rae et al. 2021, table A1): lines, paragraphs, n-grams of words.

    >>> len(GopherRepetition().decompose())
    13
    """

    name = "gopher_repetition"

    def __init__(
        self,
        dup_line_frac: float | None = 0.3,
        dup_para_frac: float | None = 0.3,
        dup_line_char_frac: float | None = 0.2,
        dup_para_char_frac: float | None = 0.2,
        top_n_grams: Sequence[tuple[int, float]] = ((2, 0.2), (3, 0.18), (4, 0.16)),
        dup_n_grams: Sequence[tuple[int, float]] = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10)),
        text_field: str = "text",
    ) -> None:
        self.text_field = text_field
        filters: list[DocumentFilter] = []
        if dup_line_frac is not None:
            filters.append(RepeatedLinesFilter(1 - dup_line_frac))
        if dup_para_frac is not None:
            filters.append(RepeatedParagraphsFilter(1 - dup_para_frac))
        if dup_line_char_frac is not None:
            filters.append(RepeatedLinesByCharFilter(1 - dup_line_char_frac))
        if dup_para_char_frac is not None:
            filters.append(RepeatedParagraphsByCharFilter(1 - dup_para_char_frac))
        filters += [RepeatingTopNGramsFilter(n, ratio) for n, ratio in top_n_grams]
        filters += [RepeatingDuplicateNGramsFilter(n, ratio) for n, ratio in dup_n_grams]
        self.filters = filters

    def decompose(self) -> Stages:
        """Return one stage per rule."""
        return _stages(self.filters, self.text_field)


class FineWebQuality(CompositeStage[DocumentBatch, DocumentBatch]):
    """Apply the rules that FineWeb added (Penedo et al. 2024): line ends, short and repeated lines, line breaks.

    >>> [stage.name for stage in FineWebQuality().decompose()]
    ['line_punctuation', 'short_lines', 'duplicate_line_characters', 'new_lines_to_words']
    """

    name = "fineweb_quality"

    def __init__(
        self,
        line_punct_thr: float | None = 0.12,
        line_punct_exclude_zero: bool = False,
        short_line_thr: float | None = 0.67,
        short_line_length: int = 30,
        char_duplicates_ratio: float | None = 0.01,
        new_line_ratio: float | None = 0.3,
        text_field: str = "text",
    ) -> None:
        self.text_field = text_field
        filters: list[DocumentFilter] = []
        if line_punct_thr is not None:
            filters.append(LinePunctuationFilter(line_punct_thr, line_punct_exclude_zero))
        if short_line_thr is not None:
            filters.append(ShortLinesFilter(short_line_thr, short_line_length))
        if char_duplicates_ratio is not None:
            filters.append(DuplicateLineCharactersFilter(char_duplicates_ratio))
        if new_line_ratio is not None:
            filters.append(NewLinesToWordsFilter(new_line_ratio))
        self.filters = filters

    def decompose(self) -> Stages:
        """Return one stage per rule."""
        return _stages(self.filters, self.text_field)


class C4Quality(CompositeStage[DocumentBatch, DocumentBatch]):
    """Apply the rules of C4 (Raffel et al. 2020): keep only lines that are sentences, then drop bad pages.

    A page is dropped if the remaining text contains "lorem ipsum" or a curly bracket, or has too few sentences.

    >>> [stage.name for stage in C4Quality().decompose()]
    ['c4_line_remover', 'lorem_ipsum', 'curly_bracket', 'sentence_count']
    """

    name = "c4_quality"

    def __init__(
        self,
        remove_citations: bool = True,
        filter_no_terminal_punct: bool = True,
        min_num_sentences: int | None = 5,
        min_words_per_line: int = 3,
        max_word_length: int = 1000,
        filter_lorem_ipsum: bool = True,
        filter_javascript: bool = True,
        filter_curly_bracket: bool = True,
        filter_policy: bool = True,
        text_field: str = "text",
    ) -> None:
        self.text_field = text_field
        self.lines = C4LineRemover(
            remove_citations,
            filter_no_terminal_punct,
            min_words_per_line,
            max_word_length,
            filter_javascript,
            filter_policy,
        )
        self.min_num_sentences = min_num_sentences
        self.filter_lorem_ipsum = filter_lorem_ipsum
        self.filter_curly_bracket = filter_curly_bracket

    def decompose(self) -> Stages:
        """Return the stage that removes lines, then one per rule."""
        stages: Stages = [Modify(self.lines, self.text_field)]
        if self.filter_lorem_ipsum:
            stages.append(ScoreFilter(ForbiddenTextFilter("lorem ipsum"), self.text_field).with_(name="lorem_ipsum"))
        if self.filter_curly_bracket:
            stages.append(ScoreFilter(ForbiddenTextFilter("{"), self.text_field).with_(name="curly_bracket"))
        if self.min_num_sentences is not None:
            stages.append(ScoreFilter(SentenceCountFilter(self.min_num_sentences), self.text_field))
        return stages


def _stages(filters: Iterable[DocumentFilter], text_field: str) -> Stages:
    return [ScoreFilter(given, text_field) for given in filters]
