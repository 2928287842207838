"""Find boilerplate phrases at the blanks between words."""

from __future__ import annotations

import numpy as np

from penstock.kernels.native import byte_at, native
from penstock.kernels.patterns import LOREM_IPSUM, POLICY_PHRASES
from penstock.kernels.spans import Bytes, SmallPlaces, find_byte, spells

_ALL = (LOREM_IPSUM, *POLICY_PHRASES)
_LETTERS = np.frombuffer("".join(_ALL).encode(), dtype=np.uint8)
_BOUNDS = np.cumsum([0, *map(len, _ALL)])
# Every phrase has a blank. The letters before and after its first blank rule out most positions quickly.
_FIRST_BLANK = np.array([phrase.index(" ") for phrase in _ALL])
_BEFORE, _AFTER = np.zeros(256, dtype=np.uint16), np.zeros(256, dtype=np.uint16)
for _number, _phrase in enumerate(_ALL):
    _blank = _phrase.index(" ")
    for _table, _letter in ((_BEFORE, _phrase[_blank - 1]), (_AFTER, _phrase[_blank + 1])):
        _table[ord(_letter)] |= 1 << _number
        _table[ord(_letter.upper())] |= 1 << _number


@native
def find_boilerplate(data: Bytes, start: int, end: int, borders: SmallPlaces, words: int) -> tuple[bool, int]:
    """Return whether the text contains "lorem ipsum", and the number of paragraphs with another phrase."""
    lorem, paragraphs, paragraph_end = False, 0, start
    for i in range(words - 1):
        blank, after = borders[2 * i + 1], borders[2 * i + 2]
        possible = _BEFORE[byte_at(data, blank - 1)] & _AFTER[byte_at(data, after)]
        if possible == 0 or byte_at(data, blank) != 0x20 or after != blank + 1:
            continue
        for number in range(_FIRST_BLANK.size):
            if not (possible >> number) & 1:
                continue
            at = blank - _FIRST_BLANK[number]
            phrase = _LETTERS[_BOUNDS[number] : _BOUNDS[number + 1]]
            if at < start or at + phrase.size > end or not spells(data, at, phrase):
                continue
            if number == 0:
                lorem = True
            elif at >= paragraph_end:
                paragraphs += 1
                paragraph_end = end_of_paragraph(data, at, end)
    return lorem, paragraphs


@native
def end_of_paragraph(data: Bytes, at: int, end: int) -> int:
    """Return the position of the next two consecutive line breaks, or the end."""
    while True:
        at = find_byte(data, 10, at, end)
        if at + 1 >= end:
            return end
        if byte_at(data, at + 1) == 10:
            return at
        at += 1
