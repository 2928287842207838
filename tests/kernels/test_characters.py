"""Character flags agree with Python's predicates for all of Unicode."""

import sys

import numpy as np

from penstock.kernels import characters as c


def points(bit: int) -> set[int]:
    return set(np.flatnonzero(c.character_flags() & bit).tolist())


def test_every_character_is_what_python_says_it_is() -> None:
    everything = [chr(point) for point in range(sys.maxunicode + 1)]
    assert points(c.SPACE) == {i for i, character in enumerate(everything) if character.isspace()}
    assert points(c.ALPHA) == {i for i, character in enumerate(everything) if character.isalpha()}
    assert points(c.DECIMAL) == {i for i, character in enumerate(everything) if character.isdecimal()}
    lowers = {i for i, character in enumerate(everything) if i >= 0x80 and any(x < "\x80" for x in character.lower())}
    assert points(c.LOWERS_TO_ASCII) == lowers


def test_white_space_beyond_ascii_begins_with_four_bytes_only() -> None:
    # The scan looks at no other character when it asks for the end of a word.
    leads = {chr(point).encode()[0] for point in points(c.SPACE) if point >= 0x80}
    assert leads == {0xC2, 0xE1, 0xE2, 0xE3}


def test_byte_counters_agree_with_python() -> None:
    counters = c.byte_counters()
    for byte in range(256):
        counts = [(int(counters[byte]) >> (8 * i)) & 255 for i in range(8)]
        character = chr(byte) if byte < 0x80 else ""
        assert counts == [
            not 0x80 <= byte < 0xC0,
            bool(character) and character in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\n?!,.",
            character.isdecimal(),
            bool(character) and character in "\t\n\r\b ",
            bool(character) and character in "{}[]()",
            character.isalpha(),
            character == "\n",
            bool(character) and character <= " " and not character.isspace(),
        ]
