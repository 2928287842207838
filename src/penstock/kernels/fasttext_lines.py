"""Compute fastText's input features of a text: the average of the vectors of its words, subwords and word n-grams.

This is the same as in fastText, byte for byte: words end at ASCII white space, a line ends in ``</s>``, subwords are
hashed into buckets with FNV-1a (in which bytes are signed), and so are pairs, triples … of words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.kernels.native import native

_PRIME = np.uint32(16777619)
_BASIS = np.uint32(2166136261)
_NEIGHBOUR = np.uint64(116049371)
# fastText adds this before it takes a logarithm, and so to every probability.
TINY = np.float32(1e-5)
_BEFORE, _AFTER = np.uint8(ord("<")), np.uint8(ord(">"))


Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]
# The maximum number of cached sums of words.
_KEPT, _BYTES_PER_WORD = 1 << 14, 6


class Lexicon(NamedTuple):
    """The vocabulary of a model, and the hash tables for looking up words and subwords."""

    # The bytes of all words, concatenated, and where each word begins.
    letters: Bytes
    begins: npt.NDArray[np.int64]
    # Hash table with open addressing: word number, -1 where free. Its size is a power of two.
    slots: npt.NDArray[np.int32]
    # Row of each bucket among the vectors, -1 where the model has none; empty: the rows after those of the words.
    rows: npt.NDArray[np.int32]
    # A bit for each bucket that has a row: it fits into the cache of a core, and most subwords need no further lookup.
    known: Bytes
    # The number of words; their vectors come first.
    words: int
    buckets: int
    shortest: int
    longest: int
    neighbours: int
    # The vector of the end of a line, -1 if there is none.
    end: int


# XOR operand for each byte: fastText treats bytes as signed.
_SIGNED = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int32).view(np.uint32)
_SEPARATOR = np.isin(np.arange(256), list(b" \n\r\t\v\f\0"))
_LABEL = np.frombuffer(b"__label__", np.uint8)
_END = np.frombuffer(b"</s>", np.uint8)


@native
def hash_word(data: Bytes, start: int, stop: int) -> np.uint32:
    """Return fastText's hash of some bytes."""
    value = _BASIS
    for i in range(start, stop):
        value = np.uint32((value ^ _SIGNED[data[i]]) * _PRIME)
    return value


@native
def fill_slots(letters: Bytes, begins: npt.NDArray[np.int64], slots: npt.NDArray[np.int32]) -> None:
    """Insert every word into the hash table."""
    mask = len(slots) - 1
    for word in range(len(begins) - 1):
        slot = np.int64(hash_word(letters, begins[word], begins[word + 1])) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = word


@native
def _is(data: Bytes, start: int, other: Bytes, first: int, length: int) -> bool:
    for i in range(length):  # noqa: SIM110 - Numba compiles loops
        if data[start + i] != other[first + i]:
            return False
    return True


@native
def _find(lexicon: Lexicon, data: Bytes, start: int, stop: int, value: np.uint32) -> int:
    mask = len(lexicon.slots) - 1
    slot = np.int64(value) & mask
    while lexicon.slots[slot] >= 0:
        word = lexicon.slots[slot]
        first = lexicon.begins[word]
        length = lexicon.begins[word + 1] - first
        if length == stop - start and _is(data, start, lexicon.letters, first, length):
            return int(word)
        slot = (slot + 1) & mask
    return -1


@native
def _add(total: Floats, vectors: Floats, row: int) -> int:
    for i in range(total.shape[0]):
        total[i] += vectors[row, i]
    return 1


@native
def _add_pieces(lexicon: Lexicon, framed: Bytes, size: int, total: Floats, vectors: Floats) -> int:
    """Add the vectors of all subwords of ``<word>``; return their number."""
    # Unpacked first: taking an array out of the tuple costs more than the rest of an iteration.
    rows, known, all_are_known = lexicon.rows, lexicon.known, len(lexicon.rows) == 0
    words, shortest, longest = lexicon.words, lexicon.shortest, lexicon.longest
    buckets = np.int64(lexicon.buckets)
    share = 1.0 / buckets
    added = 0
    for start in range(size):
        if framed[start] & 0xC0 == 0x80:
            continue  # in the middle of a character
        value = _BASIS
        stop = start
        characters = 1
        while stop < size and characters <= longest:
            value = np.uint32((value ^ _SIGNED[framed[stop]]) * _PRIME)
            stop += 1
            while stop < size and framed[stop] & 0xC0 == 0x80:
                value = np.uint32((value ^ _SIGNED[framed[stop]]) * _PRIME)
                stop += 1
            if characters >= shortest and not (characters == 1 and (start == 0 or stop == size)):
                # The remainder of a division by multiplication: off by one at most, and several times as fast.
                bucket = np.int64(value) - np.int64(value * share) * buckets
                bucket += buckets if bucket < 0 else -buckets if bucket >= buckets else 0
                if all_are_known:
                    added += _add(total, vectors, int(words + bucket))
                elif (known[bucket >> 3] >> (bucket & 7)) & 1:
                    added += _add(total, vectors, rows[bucket])
            characters += 1
    return added


@native
def _add_neighbours(lexicon: Lexicon, hashes: npt.NDArray[np.int32], size: int, total: Floats, vectors: Floats) -> int:
    """Add the vectors of all pairs, triples … of words; return their number."""
    added = 0
    for first in range(size):
        value = np.uint64(np.int64(hashes[first]))
        for last in range(first + 1, min(size, first + lexicon.neighbours)):
            value = value * _NEIGHBOUR + np.uint64(np.int64(hashes[last]))
            bucket = np.int64(value % np.uint64(lexicon.buckets))
            row = lexicon.rows[bucket] if len(lexicon.rows) else lexicon.words + bucket
            if row >= 0:
                added += _add(total, vectors, int(row))
    return added


@native
def average_vectors(
    lexicon: Lexicon, vectors: Floats, data: Bytes, offsets: npt.NDArray[np.int64], averages: Floats, counts: Counts
) -> None:
    """Average the vectors of all words, subwords and n-grams of each text, and count them; 0 for an empty text."""
    longest = 0
    for text in range(len(offsets) - 1):
        longest = max(longest, offsets[text + 1] - offsets[text])
    framed = np.empty(longest + 2, np.uint8)
    hashes = np.empty(longest // 2 + 2 if lexicon.neighbours > 1 else 0, np.int32)
    # Most words occurred recently: their sums are cached, at the slot given by their hash.
    places = 16
    while places < _KEPT and places * _BYTES_PER_WORD < offsets[-1]:
        places *= 2
    begins, ends = np.full(places, -1, np.int64), np.zeros(places, np.int64)
    sums, sizes = np.zeros((places, vectors.shape[1]), np.float32), np.zeros(places, np.int64)
    for text in range(len(offsets) - 1):
        total = averages[text]
        count = words = 0
        position, end = offsets[text], offsets[text + 1]
        ended = False
        while not ended:
            while position < end and _SEPARATOR[data[position]]:
                position += 1
            if position == end:
                break
            start = position
            while position < end and not _SEPARATOR[data[position]]:
                position += 1
            size = position - start
            value = hash_word(data, start, position)
            is_label = size >= len(_LABEL) and _is(data, start, _LABEL, 0, len(_LABEL))
            if is_label and _find(lexicon, data, start, position, value) < 0:
                continue
            ended = size == len(_END) and _is(data, start, _END, 0, size)
            kept = int(value) & (places - 1)
            first = begins[kept]
            if first < 0 or ends[kept] - first != size or not _is(data, start, data, first, size):
                begins[kept], ends[kept] = start, position
                sizes[kept] = _sum_word(lexicon, vectors, data, start, position, value, framed, sums[kept])
            if sizes[kept] > 0:
                _add(total, sums, kept)
                count += sizes[kept]
            if lexicon.neighbours > 1:
                hashes[words] = np.int32(value)
                words += 1
        if not ended:
            if lexicon.end >= 0:
                count += _add(total, vectors, lexicon.end)
            if lexicon.neighbours > 1:
                hashes[words] = np.int32(hash_word(_END, 0, len(_END)))
                words += 1
        if lexicon.neighbours > 1 and lexicon.buckets > 0:
            count += _add_neighbours(lexicon, hashes, words, total, vectors)
        counts[text] = count
        if count > 0:
            total *= np.float32(1.0 / count)


@native
def _sum_word(
    lexicon: Lexicon,
    vectors: Floats,
    data: Bytes,
    start: int,
    stop: int,
    value: np.uint32,
    framed: Bytes,
    total: Floats,
) -> int:
    """Sum the vectors of a word and its subwords; return their number."""
    total[:] = 0
    count = 0
    word = _find(lexicon, data, start, stop, value)
    if word >= 0:
        count += _add(total, vectors, word)
    size = stop - start
    is_end = size == len(_END) and _is(data, start, _END, 0, size)
    if lexicon.longest > 0 and lexicon.buckets > 0 and not is_end:
        framed[0] = _BEFORE
        framed[1 : size + 1] = data[start:stop]
        framed[size + 1] = _AFTER
        count += _add_pieces(lexicon, framed, size + 2, total, vectors)
    return count


@native
def weigh(averages: Floats, weights: Floats, products: Floats) -> None:
    """Multiply each average by each row of weights, always in the same order, so that results are reproducible."""
    for text in range(len(averages)):
        for row in range(len(weights)):
            total = np.float32(0)
            for i in range(averages.shape[1]):
                total += averages[text, i] * weights[row, i]
            products[text, row] = total


@native
def descend(right: Floats, children: npt.NDArray[np.int64], likelihoods: Floats) -> None:
    """Compute the probability of each leaf of the label tree from the branch probabilities, for each text."""
    texts, leaves = likelihoods.shape
    logarithms = np.zeros(2 * leaves - 1, np.float32)
    for text in range(texts):
        for node in range(2 * leaves - 2, leaves - 1, -1):
            turn = right[text, node - leaves]
            before = logarithms[node]
            logarithms[children[node - leaves, 0]] = before + np.log(np.float32(1) - turn + TINY)
            logarithms[children[node - leaves, 1]] = before + np.log(turn + TINY)
        for leaf in range(leaves):
            likelihoods[text, leaf] = np.exp(logarithms[leaf])
