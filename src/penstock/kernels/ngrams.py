"""Compute the repetition of n-grams of words.

An n-gram that repeats contains an (n-1)-gram that repeats. So each length examines only the positions where the
previous length found a repetition at this position and at the next, which are soon few.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.native import byte_at, native
from penstock.kernels.spans import Bytes, Hashes, Places, SmallPlaces, mix

Counts = npt.NDArray[np.int32]

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_HALF = np.uint64(32)
_ODD = np.uint64(0xD6E8FEB86659FD93)
# The number of highest bits of a hash that select the part it is counted in, if the table is too small for all.
_PART_BITS = np.uint64(56)
MOST_PARTS = 8
# Slot values for n-grams counted in parts: occurs once, several times, or as often as any other.
_AS_ONE, _AS_SEVERAL, _AS_MOST = 0, 1, 2


@native
def table_size(entries: int) -> int:
    """Return the size of a hash table that is at most half full."""
    size = 8
    while size < 2 * entries:
        size *= 2
    return size


@native
def find_slot(keys: Hashes, size: int, key: np.uint64) -> int:
    """Return the slot of a hash, or the empty slot where it is to be inserted."""
    slot: Any = np.int64((key ^ (key >> _HALF)) & np.uint64(size - 1))
    while keys[slot] != key and keys[slot] != _ZERO:
        slot = (slot + 1) & (size - 1)
    return slot


@native
def count_repetition(
    data: Bytes,
    borders: SmallPlaces,
    before: SmallPlaces,
    hashes: Hashes,
    words: int,
    characters: int,
    top: Places,
    duplicate: Places,
    features: Places,
    keys: Hashes,
    counts: Counts,
    slots: SmallPlaces,
    grams: Hashes,
    places: SmallPlaces,
) -> None:
    """Fill in the features of n-grams.

    ``top[n]`` and ``duplicate[n]`` say in which feature the characters of the most frequent n-gram, and those in
    repeated n-grams, are wanted; -1 if it is not requested. The last five arrays are buffers.
    """
    longest = top.size - 1
    for n in range(1, longest + 1):
        if n > words:
            # Fewer than n words: the whole text counts as repeated.
            if top[n] >= 0:
                features[top[n]] = characters
            if duplicate[n] >= 0:
                features[duplicate[n]] = characters
    first = 1 if top[1] >= 0 or duplicate[1] >= 0 else min(2, longest)
    candidates = max(words - first + 1, 0)
    for i in range(candidates):
        places[i] = i
        grams[i] = hashes[i] if first == 1 else _longer(hashes[i], hashes[i + 1])
    for n in range(first, min(longest, words) + 1):
        wants_duplicates = duplicate[n] >= 0
        most = 0
        duplicated, last = 0, -n
        size = table_size(candidates)
        if size > keys.size:
            most = _count_in_parts(grams, candidates, size // keys.size, keys, counts, slots)
            for k in range(candidates):
                repeats = slots[k] > 0
                occurrences = abs(slots[k])
                slots[k] = _AS_MOST if occurrences == most else _AS_SEVERAL if occurrences > 1 else _AS_ONE
                if wants_duplicates and repeats:
                    place = places[k]
                    overlap = max(n - (place - last), 0)
                    duplicated += before[place + n] - before[place + overlap] + min(n - overlap, n - 1)
                    last = place
            counts[_AS_ONE], counts[_AS_SEVERAL], counts[_AS_MOST] = 1, 2, most
        else:
            keys[:size] = 0
            counts[:size] = 0
            for k in range(candidates):
                place = places[k]
                slot = find_slot(keys, size, grams[k])
                keys[slot] = grams[k]
                seen = counts[slot] + 1
                counts[slot] = seen
                slots[k] = slot
                most = max(most, seen)
                if wants_duplicates and seen > 1:
                    overlap = max(n - (place - last), 0)
                    duplicated += before[place + n] - before[place + overlap] + min(n - overlap, n - 1)
                    last = place
        if wants_duplicates:
            features[duplicate[n]] = duplicated
        if top[n] >= 0:
            place = 0  # the first, if none repeats
            for k in range(candidates):
                if most > 1 and counts[slots[k]] == most:
                    place = places[k]
                    break
            found = _occurrences(data, borders, hashes, words, place, n)
            features[top[n]] = found * (before[place + n] - before[place] + n - 1)
        left = 0
        for k in range(candidates - 1):
            place = places[k]
            grams[left] = _longer(grams[k], hashes[min(place + n, words - 1)])
            places[left] = place
            # Without a branch, which could not be predicted.
            left += (places[k + 1] == place + 1) & (counts[slots[k]] > 1) & (counts[slots[k + 1]] > 1)
        candidates = left


@native
def _count_in_parts(
    grams: Hashes, candidates: int, parts: int, keys: Hashes, counts: Counts, slots: SmallPlaces
) -> int:
    """Count n-grams in a table that is too small for all of them: one part of the hashes at a time.

    Each n-gram gets in ``slots`` how often it occurs, negative where it occurs for the first time. The most that any
    occurs is returned.
    """
    most = 0
    last = np.uint64(parts - 1)
    for part in range(parts):
        here = np.uint64(part)
        keys[:] = 0
        counts[:] = 0
        for k in range(candidates):
            if (grams[k] >> _PART_BITS) & last == here:
                slot = find_slot(keys, keys.size, grams[k])
                keys[slot] = grams[k]
                counts[slot] += 1
                slots[k] = slot if counts[slot] > 1 else -slot - 1
        for k in range(candidates):
            if (grams[k] >> _PART_BITS) & last == here:
                is_first = slots[k] < 0
                occurrences = counts[-slots[k] - 1 if is_first else slots[k]]
                slots[k] = -occurrences if is_first else occurrences
                most = max(most, occurrences)
    return most


@native
def _longer(gram: np.uint64, word: np.uint64) -> np.uint64:
    """Return the hash of an n-gram and one more word. The multiplication tells "a b" from "b a"."""
    return mix(gram * _ODD, word) | _ONE


@native
def _occurrences(data: Bytes, borders: SmallPlaces, hashes: Hashes, words: int, place: int, n: int) -> int:
    """Return the number of occurrences that ``str.replace`` would find of an n-gram joined by single blanks.

    Its first word may be the end of a longer one, its last word the beginning.
    """
    head_start, head_end = borders[2 * place], borders[2 * place + 1]
    tail_start, tail_end = borders[2 * (place + n - 1)], borders[2 * (place + n) - 1]
    if n == 1:
        return _occurrences_of_word(data, borders[0], borders[2 * words - 1], head_start, head_end)
    head, tail = head_end - head_start, tail_end - tail_start
    head_last, tail_first = byte_at(data, head_end - 1), byte_at(data, tail_start)
    found, free_from = 0, 0
    for i in range(words - n + 1):
        at, last_start = borders[2 * i + 1], borders[2 * (i + n - 1)]
        if (byte_at(data, at - 1) != head_last) | (byte_at(data, last_start) != tail_first):
            continue
        last_end = borders[2 * (i + n - 1) + 1]
        if at - borders[2 * i] < head or last_end - last_start < tail or at - head < free_from:
            continue
        same = True
        for j in range(i + 1, i + n):
            gap = borders[2 * j - 1]
            same &= borders[2 * j] == gap + 1 and byte_at(data, gap) == 0x20
            same &= j == i + n - 1 or hashes[j] == hashes[place + j - i]
        if same and _same(data, at - head, head_start, head) and _same(data, last_start, tail_start, tail):
            found += 1
            free_from = last_start + tail
    return found


@native
def _occurrences_of_word(data: Bytes, start: int, end: int, word_start: int, word_end: int) -> int:
    size = word_end - word_start
    found, at = 0, start
    while at + size <= end:
        if byte_at(data, at) == byte_at(data, word_start) and _same(data, at, word_start, size):
            found += 1
            at += size
        else:
            at += 1
    return found


@native
def _same(data: Bytes, one: int, other: int, size: int) -> bool:
    for i in range(size):  # noqa: SIM110 - Numba has no all()
        if byte_at(data, one + i) != byte_at(data, other + i):
            return False
    return True
