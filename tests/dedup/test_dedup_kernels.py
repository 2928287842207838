"""Shingles, signatures, similarity, hashes and components, each compared with a short Python implementation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernels import shingles as shingles_module
from penstock.kernels.jaccard import LARGEST_COUNTED, Comparing, is_sampled
from penstock.kernels.line_hash import line_hashes
from penstock.kernels.minhash import Permutations, band_hashes, permutations, signatures
from penstock.kernels.polynomial import BASE, MIX_1, MIX_2
from penstock.kernels.shingles import Shingling
from penstock.kernels.signing import Signer, choose_device
from penstock.kernels.text_hash import text_hashes
from penstock.kernels.union import connect

MASK = 2**64 - 1
# Letters of one to four bytes and every kind of white space; few enough that random texts share shingles.
ALPHABET = "ab é€😀\t\n\x1f\x85\xa0\u1680\u2003\u2028\u202f\u205f\u3000\0"
TEXTS = st.text(st.sampled_from(ALPHABET), max_size=60) | st.text(max_size=30)
SHINGLINGS = st.builds(Shingling, st.integers(1, 6), st.sampled_from(["char", "word"]))


def mix(value: int) -> int:
    value ^= value >> 33
    value = value * MIX_1 & MASK
    value ^= value >> 33
    value = value * MIX_2 & MASK
    return value ^ value >> 33


def polynomial(text: str) -> int:
    value = 0
    for byte in text.encode():
        value = (value * BASE + byte + 1) & MASK
    return value


def pieces(text: str, shingling: Shingling) -> list[tuple[str, ...]]:
    """Return the set of shingles: n-grams of characters or words, computed in Python."""
    units = list(text) if shingling.unit == "char" else text.split()
    return [tuple(units[i : i + shingling.width]) for i in range(len(units) - shingling.width + 1)]


def shingle_hashes(text: str, shingling: Shingling) -> list[int]:
    """Return the 64-bit hash of every shingle."""
    if shingling.unit == "char":
        return [mix(polynomial("".join(piece))) for piece in pieces(text, shingling)]
    hashes = []
    for piece in pieces(text, shingling):
        value = shingling.width
        for word in piece:
            value = mix(value ^ mix(polynomial(word)))
        hashes.append(value)
    return hashes


def slow_signature(text: str, shingling: Shingling, chosen: Permutations, bits: int) -> list[int]:
    hashes = [value >> (64 - bits) for value in shingle_hashes(text, shingling)]
    most = 2**bits - 1
    return [
        min(((a * value + b) & most for value in hashes), default=most)
        for a, b in zip(chosen.a.tolist(), chosen.b.tolist(), strict=True)
    ]


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=5), SHINGLINGS, st.sampled_from([32, 64]))
def test_signature_is_the_minimum_of_every_permutation(texts: list[str], shingling: Shingling, bits: int) -> None:
    chosen = permutations(5, seed=7, bits=bits)
    signature, has_shingles = signatures(pa.array(texts, pa.large_string()), shingling, chosen)
    assert signature.tolist() == [slow_signature(text, shingling, chosen, bits) for text in texts]
    assert has_shingles.tolist() == [bool(pieces(text, shingling)) for text in texts]


@pytest.mark.parametrize("shingling", [Shingling(24), Shingling(1), Shingling(5, "word")], ids=str)
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_document_longer_than_a_chunk_is_signed_completely(shingling: Shingling, letter: str) -> None:
    """Shingles that cross the border between two chunks are included, for characters of any byte width."""
    count = shingles_module.CHUNK + 300
    text = "".join(f"{letter}{number % 7919} " for number in range(count))
    chosen = permutations(3, bits=64)
    signature, _ = signatures(pa.array([text]), shingling, chosen)
    assert signature.tolist() == [slow_signature(text, shingling, chosen, 64)]


@settings(deadline=None)
@given(TEXTS, TEXTS, SHINGLINGS)
def test_similarity_is_shingles_in_both_over_shingles_in_either(first: str, second: str, shingling: Shingling) -> None:
    a, b = set(pieces(first, shingling)), set(pieces(second, shingling))
    expected = len(a & b) / len(a | b) if a | b else 0.0
    comparing = Comparing(shingling)
    one = comparing.shingles(np.frombuffer(first.encode(), dtype=np.uint8))
    other = np.frombuffer(second.encode(), dtype=np.uint8)
    assert comparing.similarity(one, other) == expected
    assert comparing.similarity(one, other) == expected, "a second visit finds no marks of the first"


def test_a_shingle_set_can_be_compared_with_texts_longer_and_shorter_than_itself() -> None:
    comparing = Comparing(Shingling(3))
    held = comparing.shingles(np.frombuffer(b"abcdef", dtype=np.uint8))
    long = np.frombuffer(b"abcdef" + bytes(range(33, 127)) * 400, dtype=np.uint8)
    assert comparing.similarity(held, long) < 0.05
    assert comparing.similarity(held, np.frombuffer(b"abcdef", dtype=np.uint8)) == 1.0
    assert comparing.similarity(held, np.frombuffer(b"ab", dtype=np.uint8)) == 0.0


def test_very_large_text_is_sampled_with_a_small_error() -> None:
    draw = np.random.default_rng(0)
    text = draw.integers(97, 123, 3 * LARGEST_COUNTED, dtype=np.uint8)
    other = text[LARGEST_COUNTED // 2 :]
    comparing = Comparing(Shingling(24))
    first = comparing.shingles(text)
    assert first.num_bytes <= 16 * LARGEST_COUNTED
    assert abs(comparing.similarity(first, other) - 5 / 6) < 0.001
    assert comparing.similarity(first, text) == 1.0
    assert [is_sampled(text), is_sampled(text[:LARGEST_COUNTED])] == [True, False]


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("", "00000000000000000000000000000000"),
        ("Hello, world!", "f1512dd1d2d665df2c326650a8f3c564"),
        ("The quick brown fox jumps over the lazy dog", "e34bbc7bbc071b6c7a433ca9c49a9347"),
    ],
)
def test_line_hash_is_128_bit_murmurhash3(text: str, digest: str) -> None:
    """The published vectors of MurmurHash3_x64_128 with seed 0."""
    [[high, low]] = line_hashes(pa.array([text])).tolist()
    assert f"{high:016x}{low:016x}" == digest


def test_document_hash_is_128_bit_xxh3() -> None:
    """The published vector of XXH3 for an empty input with seed 0."""
    [[high, low]] = text_hashes(pa.array([""])).tolist()
    assert f"{high:016x}{low:016x}" == "99aa06d3014798d86001c324468d497f"


@pytest.mark.parametrize("hashes_of", [text_hashes, line_hashes])
@settings(deadline=None)
@given(st.lists(st.text(max_size=40) | st.none(), max_size=8))
def test_texts_have_equal_hashes_exactly_when_they_are_equal(
    hashes_of: Callable[[pa.ChunkedArray], npt.NDArray[np.uint64]], texts: list[str | None]
) -> None:
    hashes = [tuple(pair) for pair in hashes_of(pa.chunked_array([texts[:3], texts[3:]], pa.string())).tolist()]
    for text, value in zip(texts, hashes, strict=True):
        assert [other == value for other in hashes] == [(other or "") == (text or "") for other in texts]


def test_band_hashes_are_equal_if_values_and_band_position_are_equal() -> None:
    signature = np.array([[1, 2, 1, 2], [1, 2, 9, 9]], dtype=np.uint32)
    first, second = band_hashes(signature, 2).tolist()
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert first[0] != first[1], "the same numbers in another band are another bucket"


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=12), max_size=3))
def test_every_element_is_labelled_with_the_smallest_element_of_its_component(
    parts: list[list[tuple[int, int]]],
) -> None:
    parents = np.arange(20)
    sets = [{number} for number in range(20)]
    for part in parts:
        connect(parents, np.array(part, dtype=np.int64).reshape(-1, 2))
        for a, b in part:
            joined = sets[a] | sets[b]
            for member in joined:
                sets[member] = joined
    assert parents.tolist() == [min(group) for group in sets]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Shingling(0), "width=0"),
        (lambda: Shingling(3, "line"), "unit='line'"),
        (lambda: permutations(2, bits=16), "bits=16"),
        (lambda: choose_device("gpu", Shingling()), "device='gpu'"),
    ],
)
def test_invalid_parameters_are_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_word_shingles_are_computed_on_the_cpu() -> None:
    assert choose_device("cuda", Shingling(5, "word")) == "cpu"


def test_signature_estimate_is_close_to_the_true_similarity() -> None:
    words = [f"word{number}" for number in range(400)]
    texts = [" ".join(words[:300]), " ".join(words[60:360])]
    signature, _ = Signer(Shingling(1, "word"), 512, 42, 32, "cpu").signatures(pa.array(texts))
    estimate = float((signature[0] == signature[1]).mean())
    assert abs(estimate - 240 / 360) < 0.06
