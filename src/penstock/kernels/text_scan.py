"""The scan: every number that rules of thumb need of a document, from one visit to its bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.kernels import columns as c
from penstock.kernels.characters import ALPHA, BULLET, DECIMAL, LOWERS_TO_ASCII, PARENTHESIS, Flags
from penstock.kernels.native import native
from penstock.kernels.ngrams import Counts, Hashes, count_repetition, find_slot, table_size
from penstock.kernels.phrases import end_of_paragraph, find_boilerplate
from penstock.kernels.spans import Bytes, count_characters, decode, find_byte, hash_span, width
from penstock.kernels.urls import measure_urls
from penstock.kernels.words import (
    Places,
    ends_in_ellipsis,
    find_words,
    has_letter,
    is_common_english,
    is_symbol_word,
    measure_words,
)

_ZERO, _EIGHT, _BYTE = np.uint64(0), np.uint64(8), np.uint64(255)
# Documents up to this size share one workspace; a larger one gets its own, counted and not guessed.
_LARGE = 1 << 20


@native
def scan(
    data: Bytes,
    offsets: Places,
    groups: int,
    top: Places,
    duplicate: Places,
    flags: Flags,
    counters: Hashes,
    features: npt.NDArray[np.int64],
) -> None:
    """Fill one row of features per document."""
    shared = 0
    for row in range(offsets.size - 1):
        size = offsets[row + 1] - offsets[row]
        if size <= _LARGE:
            shared = max(shared, size)
    room = _workspace(shared // 2 + 2)
    for row in range(offsets.size - 1):
        start, end = offsets[row], offsets[row + 1]
        if end - start > _LARGE:
            own = _workspace(_most_entries(data, start, end))
            _scan_document(data, start, end, groups, top, duplicate, flags, counters, features[row], own)
        else:
            _scan_document(data, start, end, groups, top, duplicate, flags, counters, features[row], room)


@native
def _workspace(entries: int) -> tuple[Places, Places, Places, Places, Hashes, Hashes, Counts, Places, Hashes, Places]:
    """Return room for a document of so many words, lines or paragraphs."""
    size = table_size(entries)
    return (
        np.empty(entries, np.int64),  # starts of words
        np.empty(entries, np.int64),  # ends of words
        np.empty(4 * entries, np.int64),  # lines
        np.empty(entries + 1, np.int64),  # characters of all words before
        np.empty(entries, np.uint64),  # hashes of words
        np.empty(size, np.uint64),  # keys of the table
        np.empty(size, np.int32),  # counts of the table
        np.empty(entries, np.int64),  # slot of each n-gram
        np.empty(entries, np.uint64),  # hash of each n-gram
        np.empty(entries, np.int64),  # place of each n-gram
    )


@native
def _most_entries(data: Bytes, start: int, end: int) -> int:
    """Return a bound on words, lines and paragraphs: the bytes up to a blank that others follow, and some."""
    borders = 2
    for i in range(start, end):
        borders += data[i] <= 0x20 or data[i] >= 0xC2
    return borders


@native
def _scan_document(
    data: Bytes,
    start: int,
    end: int,
    groups: int,
    top: Places,
    duplicate: Places,
    flags: Flags,
    counters: Hashes,
    features: Places,
    room: tuple[Places, Places, Places, Places, Hashes, Hashes, Counts, Places, Hashes, Places],
) -> None:
    starts, ends, lines, before, hashes, keys, counts, slots, grams, places = room
    _count_bytes(data, start, end, counters, features)
    ascii_only = features[c.CHARACTERS] == end - start
    if not ascii_only:
        _count_beyond_ascii(data, start, end, flags, features)
    words, line_count = 0, 0
    if groups & (c.WORD_GROUP | c.LINE_GROUP | c.REPEATED_LINE_GROUP | c.NGRAM_GROUP | c.PHRASE_GROUP):
        words, line_count = find_words(data, start, end, flags, starts, ends, lines)
        features[c.WORDS] = words
        features[c.LINES] = line_count
    if groups & (c.WORD_GROUP | c.NGRAM_GROUP):
        features[c.LONGEST_WORD] = measure_words(data, starts, ends, words, ascii_only, before)
        features[c.WORD_CHARACTERS] = before[words]
    if groups & c.WORD_GROUP:
        _judge_words(data, starts, ends, words, flags, features)
    if groups & c.LINE_GROUP:
        _judge_lines(data, starts, ends, lines, line_count, flags, features)
    if groups & c.REPEATED_LINE_GROUP:
        _find_repeated_lines(data, lines, line_count, ascii_only, features, keys)
    if groups & c.PARAGRAPH_GROUP:
        _find_repeated_paragraphs(data, start, end, ascii_only, features, keys)
    if groups & c.PHRASE_GROUP:
        lorem, paragraphs = find_boilerplate(data, start, end, starts, ends, words)
        features[c.LOREM_IPSUM] = lorem
        features[c.BOILERPLATE_PARAGRAPHS] = paragraphs
        if not groups & c.PARAGRAPH_GROUP:
            features[c.PARAGRAPHS] = _count_paragraphs(data, start, end)
    if groups & c.URL_GROUP and features[c.COLONS] > 0:
        characters, porn = measure_urls(data, start, end)
        features[c.URL_CHARACTERS] = characters
        features[c.PORNOGRAPHIC_URLS] = porn
    if groups & c.LONGEST_LINE_GROUP:
        features[c.LONGEST_LINE] = _longest_line(data, start, end)
    if groups & c.NGRAM_GROUP:
        for i in range(words):
            hashes[i] = hash_span(data, starts[i], ends[i])
        count_repetition(
            data, starts, ends, before, hashes, words, features[c.CHARACTERS],
            top, duplicate, features, keys, counts, slots, grams, places,
        )  # fmt: skip


@native
def _count_bytes(data: Bytes, start: int, end: int, counters: Hashes, features: Places) -> None:
    at = start
    while at < end:
        stop = min(at + 255, end)  # before a counter of eight bits is full
        sums = np.uint64(0)
        for i in range(at, stop):
            sums += counters[data[i]]
        for column in range(8):
            features[column] += np.int64(sums & _BYTE)
            sums >>= _EIGHT
        at = stop


@native
def _count_beyond_ascii(data: Bytes, start: int, end: int, flags: Flags, features: Places) -> None:
    at = start
    while at < end:
        if data[at] < 0x80:
            at += 1
            continue
        kind = flags[decode(data, at)]
        features[c.LETTERS] += (kind & ALPHA) != 0
        features[c.DECIMALS] += (kind & DECIMAL) != 0
        features[c.PARENTHESES] += (kind & PARENTHESIS) != 0
        features[c.LOWERS_TO_ASCII] |= (kind & LOWERS_TO_ASCII) != 0
        at += width(data[at])


@native
def _judge_words(data: Bytes, starts: Places, ends: Places, words: int, flags: Flags, features: Places) -> None:
    with_letters, symbols, common = 0, 0, 0
    for i in range(words):
        first = data[starts[i]]
        if first >= 97 and first <= 122:
            with_letters += 1
            common += is_common_english(data, starts[i], ends[i])
        else:
            with_letters += has_letter(data, starts[i], ends[i], flags)
            symbols += is_symbol_word(data, starts[i], ends[i])
    features[c.WORDS_WITH_LETTERS] = with_letters
    features[c.SYMBOL_WORDS] = symbols
    features[c.COMMON_WORDS] = common


@native
def _judge_lines(
    data: Bytes, starts: Places, ends: Places, lines: Places, count: int, flags: Flags, features: Places
) -> None:
    bullets, end_marks, ellipses = 0, 0, 0
    for i in range(count):
        start, end = starts[lines[4 * i + 2]], ends[lines[4 * i + 3] - 1]
        if data[start] == 0xE2:  # where all the bullets are
            bullets += (flags[decode(data, start)] & BULLET) != 0
        last = data[end - 1]
        # . ? ! " '
        end_marks += last == 0x2E or last == 0x3F or last == 0x21 or last == 0x22 or last == 0x27
        ellipses += ends_in_ellipsis(data, start, end)
    features[c.BULLET_LINES] = bullets
    features[c.END_MARK_LINES] = end_marks
    features[c.ELLIPSIS_LINES] = ellipses


@native
def _find_repeated_lines(
    data: Bytes, lines: Places, count: int, ascii_only: bool, features: Places, keys: Hashes
) -> None:
    size = table_size(count)
    keys[:size] = 0
    for i in range(count):
        start, end = lines[4 * i], lines[4 * i + 1]
        characters = end - start if ascii_only else count_characters(data, start, end)
        features[c.LINE_CHARACTERS] += characters
        key = hash_span(data, start, end)
        slot = find_slot(keys, size, key)
        if keys[slot] == _ZERO:
            keys[slot] = key
            features[c.DISTINCT_LINES] += 1
            features[c.DISTINCT_LINE_CHARACTERS] += characters


@native
def _find_repeated_paragraphs(
    data: Bytes, start: int, end: int, ascii_only: bool, features: Places, keys: Hashes
) -> None:
    size = table_size(features[c.LINE_BREAKS] // 2 + 1)
    keys[:size] = 0
    at = start
    while True:
        stop = end_of_paragraph(data, at, end)
        characters = stop - at if ascii_only else count_characters(data, at, stop)
        features[c.PARAGRAPHS] += 1
        features[c.PARAGRAPH_CHARACTERS] += characters
        key = hash_span(data, at, stop)
        slot = find_slot(keys, size, key)
        if keys[slot] == _ZERO:
            keys[slot] = key
            features[c.DISTINCT_PARAGRAPHS] += 1
            features[c.DISTINCT_PARAGRAPH_CHARACTERS] += characters
        if stop >= end:
            return
        at = stop + 2


@native
def _count_paragraphs(data: Bytes, start: int, end: int) -> int:
    count, at = 1, start
    while True:
        at = end_of_paragraph(data, at, end)
        if at >= end:
            return count
        count += 1
        at += 2


@native
def _longest_line(data: Bytes, start: int, end: int) -> int:
    longest, at = 0, start
    while True:
        stop = find_byte(data, 10, at, end)
        longest = max(longest, count_characters(data, at, stop))
        if stop >= end:
            return longest
        at = stop + 1
