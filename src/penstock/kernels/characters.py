"""Classify code points: one byte of flags for each, consistent with the predicates of Python's ``str``."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import numpy.typing as npt

SPACE, ALPHA, DECIMAL, PARENTHESIS, LOWERS_TO_ASCII, BULLET, TERMINAL = (1 << bit for bit in range(7))

PARENTHESES = "{}⟨⟩[]()"
BULLETS = "•‣⁃⁌⁍∙○●◘◦⦾⦿"

# Code points that end a sentence in some script: Unicode's property Sentence_Terminal, which Python does not provide.
_SENTENCE_TERMINALS = (
    "0021 002E 003F 0589 061D-061F 06D4 0700-0702 07F9 0837 0839 083D-083E 0964-0965 104A-104B 1362 1367-1368 "
    "166E 1735-1736 17D4-17D5 1803 1809 1944-1945 1AA8-1AAB 1B4E-1B4F 1B5A-1B5B 1B5E-1B5F 1B7D-1B7F 1C3B-1C3C "
    "1C7E-1C7F 2024 203C-203D 2047-2049 2CF9-2CFB 2E2E 2E3C 2E53-2E54 2E60-2E61 3002 A4FF A60E-A60F A6F3 A6F7 "
    "A876-A877 A8CE-A8CF A92F A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB FE12 FE15-FE16 FE52 FE56-FE57 FF01 FF0E FF1F "
    "FF61 10A56-10A57 10F55-10F59 10F86-10F89 11047-11048 110BE-110C1 11141-11143 111C5-111C6 111CD 111DE-111DF "
    "11238-11239 1123B-1123C 112A9 113D4-113D5 1144B-1144C 115C2-115C3 115C9-115D7 11641-11642 1173C-1173E 11944 "
    "11946 11A42-11A43 11A9B-11A9C 11C41-11C42 11EF7-11EF8 11F43-11F44 16A6E-16A6F 16AF5 16B37-16B38 16B44 "
    "16D6E-16D6F 16E98 1BC9F 1DA88"
)

Flags = npt.NDArray[np.uint8]


@cache
def character_flags() -> Flags:
    """Return the flags of every code point.

    >>> bool(character_flags()[ord("é")] & ALPHA), bool(character_flags()[0x3000] & SPACE)
    (True, True)
    """
    points = np.arange(sys.maxunicode + 1, dtype=np.uint32)
    # NumPy uses the same tables as `str`, a million times faster than a loop over chr(). A null character ends a NumPy
    # string, so it has no flags, which is correct.
    characters = points.view(np.dtype("U1"))
    flags = np.zeros(len(points), dtype=np.uint8)
    flags[np.strings.isspace(characters)] |= SPACE
    flags[np.strings.isalpha(characters)] |= ALPHA
    flags[np.strings.isdecimal(characters)] |= DECIMAL
    for bit, listed in ((PARENTHESIS, PARENTHESES), (BULLET, BULLETS), (TERMINAL, sentence_terminals())):
        flags[[ord(character) for character in listed]] |= bit
    flags[_lowering_to_ascii()] |= LOWERS_TO_ASCII
    return flags


@cache
def sentence_terminals() -> str:
    """Return the characters that end a sentence.

    >>> all(mark in sentence_terminals() for mark in ".?!。！।؟")
    True
    """
    ranges = [(int(one.split("-")[0], 16), int(one.split("-")[-1], 16)) for one in _SENTENCE_TERMINALS.split()]
    return "".join(chr(point) for first, last in ranges for point in range(first, last + 1))


def _lowering_to_ascii() -> list[int]:
    """Return the code points beyond ASCII whose lower case has ASCII in it: İ and the Kelvin sign."""
    return [point for point in range(0x80, 0x3000) if any(c < "\x80" for c in chr(point).lower())]


# Counters of single bytes. Eight counters of eight bits share one number, so each byte costs one addition.
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
