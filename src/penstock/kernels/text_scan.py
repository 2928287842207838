"""The scan: compute all features that heuristic filters need of a document in one visit to its bytes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.kernels import columns as c
from penstock.kernels.characters import ALPHA, BULLET, DECIMAL, LOWERS_TO_ASCII, PARENTHESIS, SPACE, TERMINAL, Flags
from penstock.kernels.native import byte_at, count_ones, native
from penstock.kernels.ngrams import MOST_PARTS, Counts, count_repetition, find_slot, table_size
from penstock.kernels.phrases import end_of_paragraph, find_boilerplate
from penstock.kernels.positions import characters_until, mark_continuations
from penstock.kernels.spans import (
    Bytes,
    Hashes,
    Places,
    SmallPlaces,
    decode,
    decode_last,
    find_byte,
    find_non_ascii,
    first_bytes,
    hash_span,
    hash_word,
    read_eight,
    width,
)
from penstock.kernels.urls import measure_urls
from penstock.kernels.words import (
    SYMBOL_STARTS,
    ends_in_ellipsis,
    find_lines,
    find_words,
    has_letter,
    is_common_english,
    is_symbol_word,
    letters_among,
    mark_blanks,
    mark_wide_blank,
    measure_words,
)

_ZERO, _ONE, _EIGHT, _LAST, _BYTE = (np.uint64(n) for n in (0, 1, 8, 63, 255))
# In the order of `_workspace`.
Workspace: TypeAlias = tuple[
    Hashes,
    Hashes,
    Places,
    SmallPlaces,
    SmallPlaces,
    SmallPlaces,
    Hashes,
    Hashes,
    Counts,
    SmallPlaces,
    Hashes,
    SmallPlaces,
]
# Documents up to this size share one workspace; a larger one gets its own of exact size.
_LARGE = 1 << 20
# The maximum number of slots of the hash table; more n-grams are counted in several parts.
_LARGEST_TABLE = 1 << 21


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
    room = _workspace(shared, shared // 2 + 2)
    for row in range(offsets.size - 1):
        document = data[offsets[row] : offsets[row + 1]]  # a slice, so that positions in it are small numbers
        size = document.size
        if size > _LARGE:
            own = _workspace(size, _most_entries(document, 0, size))
            _scan_document(document, 0, size, groups, top, duplicate, flags, counters, features[row], own)
        else:
            _scan_document(document, 0, size, groups, top, duplicate, flags, counters, features[row], room)


@native
def _workspace(size: int, entries: int) -> Workspace:
    """Return buffers for a document of ``size`` bytes and ``entries`` words, lines or paragraphs."""
    table = min(table_size(entries), max(_LARGEST_TABLE, table_size(entries) // MOST_PARTS))
    return (
        np.empty(size // 64 + 1, np.uint64),  # marks of white space
        np.empty(size // 64 + 1, np.uint64),  # marks of UTF-8 continuation bytes
        np.empty(size // 64 + 1, np.int64),  # the number of those before
        np.empty(2 * entries, np.int32),  # where words begin and end
        np.empty(4 * entries, np.int32),  # lines
        np.empty(entries + 1, np.int32),  # characters of all words before
        np.empty(entries, np.uint64),  # hashes of words
        np.empty(table, np.uint64),  # keys of the table
        np.empty(table, np.int32),  # counts of the table
        np.empty(entries, np.int32),  # slot of each n-gram
        np.empty(entries, np.uint64),  # hash of each n-gram
        np.empty(entries, np.int32),  # position of each n-gram
    )


@native
def _most_entries(data: Bytes, start: int, end: int) -> int:
    """Return an upper bound on the number of words, lines and paragraphs, from the number of blanks."""
    borders = 2
    for i in range(start, end):
        borders += byte_at(data, i) <= 0x20 or byte_at(data, i) >= 0xC2
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
    room: Workspace,
) -> None:
    marks, goes_on, gone_on, borders, lines, before, hashes, keys, counts, slots, grams, places = room
    _count_bytes(data, start, end, counters, features)
    ascii_only = features[c.CHARACTERS] == end - start
    needs_lines = (groups & (c.LINE_GROUP | c.REPEATED_LINE_GROUP | c.LINE_ENDING_GROUP)) != 0
    needs_words = needs_lines or (groups & (c.WORD_GROUP | c.NGRAM_GROUP | c.PHRASE_GROUP | c.STOP_WORD_GROUP)) != 0
    if needs_words:
        mark_blanks(data, start, end, features[c.CONTROLS], flags, marks)
    if not ascii_only:
        _look_beyond_ascii(data, start, end, flags, features, needs_words, marks)
        mark_continuations(data, start, end, goes_on, gone_on)
    words, line_count = 0, 0
    if needs_words:
        words = find_words(start, end, marks, borders)
        features[c.WORDS] = words
    if needs_lines:
        line_count = find_lines(data, start, end, borders, words, lines)
        features[c.LINES] = line_count
    if groups & (c.WORD_GROUP | c.NGRAM_GROUP):
        features[c.LONGEST_WORD] = measure_words(start, borders, words, ascii_only, goes_on, gone_on, before)
        features[c.WORD_CHARACTERS] = before[words]
    if groups & c.WORD_GROUP:
        _judge_words(data, borders, words, flags, features)
    if groups & c.LINE_GROUP:
        _judge_lines(data, borders, lines, line_count, flags, features)
    if groups & c.STOP_WORD_GROUP:
        features[c.DISTINCT_COMMON_WORDS] = _distinct_common_words(data, borders, words)
    if groups & c.LINE_ENDING_GROUP:
        for i in range(line_count):
            line_end = borders[2 * lines[4 * i + 3] - 1]
            features[c.TERMINAL_LINES] += (flags[decode_last(data, line_end)] & TERMINAL) != 0
            characters = _characters(start, lines[4 * i], lines[4 * i + 1], ascii_only, goes_on, gone_on)
            features[c.SHORT_LINES] += characters <= c.SHORT_LINE
    if groups & c.REPEATED_LINE_GROUP:
        _find_repeated_lines(data, start, lines, line_count, ascii_only, goes_on, gone_on, features, keys)
    if groups & c.PARAGRAPH_GROUP:
        _find_repeated_paragraphs(data, start, end, ascii_only, goes_on, gone_on, features, keys)
    if groups & c.PHRASE_GROUP:
        lorem, paragraphs = find_boilerplate(data, start, end, borders, words)
        features[c.LOREM_IPSUM] = lorem
        features[c.BOILERPLATE_PARAGRAPHS] = paragraphs
        if not groups & c.PARAGRAPH_GROUP:
            features[c.PARAGRAPHS] = _count_paragraphs(data, start, end)
    if groups & c.URL_GROUP:
        characters, porn = measure_urls(data, start, end)
        features[c.URL_CHARACTERS] = characters
        features[c.PORNOGRAPHIC_URLS] = porn
    if groups & c.LONGEST_LINE_GROUP:
        features[c.LONGEST_LINE] = _longest_line(data, start, end, ascii_only, goes_on, gone_on)
    if groups & c.NGRAM_GROUP:
        for i in range(words):
            hashes[i] = hash_word(data, borders[2 * i], borders[2 * i + 1] - borders[2 * i])
        count_repetition(
            data, borders, before, hashes, words, features[c.CHARACTERS],
            top, duplicate, features, keys, counts, slots, grams, places,
        )  # fmt: skip


@native
def _count_bytes(data: Bytes, start: int, end: int, counters: Hashes, features: Places) -> None:
    at = start
    while at < end:
        stop = min(at + 255, end)  # before an eight-bit counter overflows
        sums = np.uint64(0)
        for i in range(at, stop):
            sums += counters[byte_at(data, i)]
        for column in range(8):
            features[column] += np.int64(sums & _BYTE)
            sums >>= _EIGHT
        at = stop


@native
def _look_beyond_ascii(
    data: Bytes, start: int, end: int, flags: Flags, features: Places, marks_blanks: bool, marks: Hashes
) -> None:
    at = start
    while True:
        at = find_non_ascii(data, at, end)
        if at >= end:
            return
        kind = flags[decode(data, at)]
        features[c.LETTERS] += (kind & ALPHA) != 0
        features[c.DECIMALS] += (kind & DECIMAL) != 0
        features[c.PARENTHESES] += (kind & PARENTHESIS) != 0
        features[c.LOWERS_TO_ASCII] |= (kind & LOWERS_TO_ASCII) != 0
        if marks_blanks and kind & SPACE:
            mark_wide_blank(start, at, width(byte_at(data, at)), marks)
        at += width(byte_at(data, at))


@native
def _judge_words(data: Bytes, borders: SmallPlaces, words: int, flags: Flags, features: Places) -> None:
    with_letters, symbols, common = 0, 0, 0
    for i in range(words):
        start, end = borders[2 * i], borders[2 * i + 1]
        word = first_bytes(read_eight(data, start), min(end - start, 8))
        common += is_common_english(word, end - start)
        if letters_among(word) != _ZERO:
            with_letters += 1
        else:
            with_letters += has_letter(data, start, end, flags)
        if SYMBOL_STARTS[byte_at(data, start)]:
            symbols += is_symbol_word(data, start, end)
    features[c.WORDS_WITH_LETTERS] = with_letters
    features[c.SYMBOL_WORDS] = symbols
    features[c.COMMON_WORDS] = common


@native
def _distinct_common_words(data: Bytes, borders: SmallPlaces, words: int) -> int:
    found = _ZERO
    for i in range(words):
        size = borders[2 * i + 1] - borders[2 * i]
        if size <= 4:
            word = first_bytes(read_eight(data, borders[2 * i]), size)
            if is_common_english(word, size):
                # The sum of two letters and the size identifies each of the eight words.
                found |= _ONE << (((word & _BYTE) + (word >> _EIGHT & _BYTE) + np.uint64(size)) & _LAST)
    return count_ones(found)


@native
def _judge_lines(
    data: Bytes, borders: SmallPlaces, lines: SmallPlaces, count: int, flags: Flags, features: Places
) -> None:
    bullets, end_marks, ellipses = 0, 0, 0
    for i in range(count):
        start, end = borders[2 * lines[4 * i + 2]], borders[2 * lines[4 * i + 3] - 1]
        if byte_at(data, start) == 0xE2:  # the first byte of all bullets
            bullets += (flags[decode(data, start)] & BULLET) != 0
        last = byte_at(data, end - 1)
        # . ? ! " '
        end_marks += last == 0x2E or last == 0x3F or last == 0x21 or last == 0x22 or last == 0x27
        ellipses += ends_in_ellipsis(data, start, end)
    features[c.BULLET_LINES] = bullets
    features[c.END_MARK_LINES] = end_marks
    features[c.ELLIPSIS_LINES] = ellipses


@native
def _find_repeated_lines(
    data: Bytes,
    document: int,
    lines: SmallPlaces,
    count: int,
    ascii_only: bool,
    goes_on: Hashes,
    gone_on: Places,
    features: Places,
    keys: Hashes,
) -> None:
    size = table_size(count)
    if size > keys.size:  # a large document of only short lines
        keys = np.empty(size, np.uint64)
    keys[:size] = 0
    for i in range(count):
        start, end = lines[4 * i], lines[4 * i + 1]
        characters = _characters(document, start, end, ascii_only, goes_on, gone_on)
        features[c.LINE_CHARACTERS] += characters
        key = hash_span(data, start, end)
        slot = find_slot(keys, size, key)
        if keys[slot] == _ZERO:
            keys[slot] = key
            features[c.DISTINCT_LINES] += 1
            features[c.DISTINCT_LINE_CHARACTERS] += characters


@native
def _find_repeated_paragraphs(
    data: Bytes,
    start: int,
    end: int,
    ascii_only: bool,
    goes_on: Hashes,
    gone_on: Places,
    features: Places,
    keys: Hashes,
) -> None:
    size = table_size(features[c.LINE_BREAKS] // 2 + 1)
    if size > keys.size:
        keys = np.empty(size, np.uint64)
    keys[:size] = 0
    at = start
    while True:
        stop = end_of_paragraph(data, at, end)
        characters = _characters(start, at, stop, ascii_only, goes_on, gone_on)
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
def _characters(document: int, start: int, end: int, ascii_only: bool, goes_on: Hashes, gone_on: Places) -> int:
    """Return the number of characters of a span of a document."""
    if ascii_only:
        return end - start
    return characters_until(end - document, goes_on, gone_on) - characters_until(start - document, goes_on, gone_on)


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
def _longest_line(data: Bytes, start: int, end: int, ascii_only: bool, goes_on: Hashes, gone_on: Places) -> int:
    longest, at = 0, start
    while True:
        stop = find_byte(data, 10, at, end)
        longest = max(longest, _characters(start, at, stop, ascii_only, goes_on, gone_on))
        if stop >= end:
            return longest
        at = stop + 1
