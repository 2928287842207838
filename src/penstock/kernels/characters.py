"""What kind of character each code point is: one byte of flags, as Python's own predicates on ``str`` say."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import numpy.typing as npt

SPACE, ALPHA, DECIMAL, PARENTHESIS, LOWERS_TO_ASCII, BULLET, TERMINAL = (1 << bit for bit in range(7))

PARENTHESES = "{}⟨⟩[]()"
BULLETS = "•‣⁃⁌⁍∙○●◘◦⦾⦿"

Flags = npt.NDArray[np.uint8]


@cache
def character_flags() -> Flags:
    """Return the flags of every code point.

    >>> bool(character_flags()[ord("é")] & ALPHA), bool(character_flags()[0x3000] & SPACE)
    (True, True)
    """
    points = np.arange(sys.maxunicode + 1, dtype=np.uint32)
    # NumPy asks the same tables as `str` does, a million times faster than a loop over chr(). A null character ends
    # a NumPy string, and then there is nothing to ask about; that it is none of these is known.
    characters = points.view(np.dtype("U1"))
    flags = np.zeros(len(points), dtype=np.uint8)
    flags[np.strings.isspace(characters)] |= SPACE
    flags[np.strings.isalpha(characters)] |= ALPHA
    flags[np.strings.isdecimal(characters)] |= DECIMAL
    for bit, listed in ((PARENTHESIS, PARENTHESES), (BULLET, BULLETS)):
        flags[[ord(character) for character in listed]] |= bit
    flags[_lowering_to_ascii()] |= LOWERS_TO_ASCII
    return flags


def _lowering_to_ascii() -> list[int]:
    """Return the code points beyond ASCII whose lower case has ASCII in it: İ and the Kelvin sign."""
    return [point for point in range(0x80, 0x3000) if any(c < "\x80" for c in chr(point).lower())]


# What is counted of single bytes. Eight counters of eight bits share one number, so that a byte costs one addition.
CHARACTERS, PLAIN, DECIMALS, BLANKS, PARENTHESIS_COUNT, LETTERS, LINE_BREAKS, CONTROLS = range(8)
PLAIN_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\n?!,."
BLANK_CHARACTERS = "\t\n\r\b "


@cache
def byte_counters() -> npt.NDArray[np.uint64]:
    """Return what each byte adds to the eight counters, the first in the lowest bits."""
    flags = character_flags()[:128]
    is_ascii = np.arange(256) < 128
    counted = np.zeros((256, 8), dtype=np.uint64)
    counted[:, CHARACTERS] = is_ascii | (np.arange(256) >= 0xC0)
    for column, listed in ((PLAIN, PLAIN_CHARACTERS), (BLANKS, BLANK_CHARACTERS), (LINE_BREAKS, "\n")):
        counted[[ord(character) for character in listed], column] = 1
    counted[:33, CONTROLS] = (flags[:33] & SPACE) == 0
    for column, bit in ((DECIMALS, DECIMAL), (PARENTHESIS_COUNT, PARENTHESIS), (LETTERS, ALPHA)):
        counted[:128, column] = (flags & bit) != 0
    shifts = np.arange(8, dtype=np.uint64) * np.uint64(8)
    return (counted << shifts).sum(axis=1, dtype=np.uint64)
