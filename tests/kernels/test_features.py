"""The scan agrees with plain Python: every feature, any text, at any offset of a buffer."""

import random
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.kernels.features import _FEATURES, Features
from penstock.kernels.ngrams import count_repetition, table_size
from penstock.kernels.spans import hash_word
from penstock.text import RepeatingDuplicateNGramsFilter, RepeatingTopNGramsFilter

NGRAMS = [f"{kind}_{n}gram" for n in (1, 2, 3, 4, 5, 10) for kind in ("top", "duplicate")]
EVERYTHING = [*_FEATURES, *NGRAMS]

# What a text is made of that could trip a scan over bytes: white space of all kinds, what looks like it and is none,
# characters of every width, and the words, marks and phrases that features ask for.
PIECES = [
    " ", "  ", "\n", "\n\n", "\t", "\r", "\b", "\x1c", "\x1f", "\x00", "\x7f", "\x85", "\xa0", "\u1680", "\u2009",
    "\u2028", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff", "a", "b", "Z", "é", "ß", "漢字", "漢字。", "かな！", "то?", "Ж", "٣", "²", "𝟘",
    "😀", "١٢", "the", "of", "and", "that", "with", "be", "The", "theof", "#", "##", "#a#", "#é#", "...", "…", "[...]",
    "[…]", "(...)", "-»", "read more", "Read MORE..", "read  more", ".", "?", "!", '"', "'", ",", "•", "‣", "⦿", "⟨x⟩",
    "{", "}", "(", "]", ":", "://", "http://", "https://", "HTTP://", "http://a.b/c?d=%20", "https://porn.x", "%4", "%zz",
    "terms of use", "Privacy Policy", "privacy & cookies policy", "lorem ipsum", "LOREM IPSUM", "use\ncookies",
    "use coo\u212aies", "pol\u0130cy", "x" * 9, "longer than eight bytes", "a b", "to be or not to be", "aaaa", "aaa aaa",
]  # fmt: skip
TERMINALS = ".?!。！？．؟۔।॥"
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40).map("".join)


def expected(text: str) -> dict[str, int]:
    """Say what each feature is, as simply as Python can."""
    words = text.split()
    lines = [line for line in text.split("\n") if line.strip()]
    paragraphs = text.split("\n\n")
    urls = re.findall(r"https?://(?:[A-Za-z0-9$\-_@.&+/:=?#~!*(),]|%[0-9A-Fa-f]{2})+", text)
    return {
        "characters": len(text),
        "plain_characters": len(re.findall(r"[a-zA-Z0-9\n?!,.]", text)),
        "decimals": sum(c.isdecimal() for c in text),
        "blanks": sum(c in "\t\n\r\b " for c in text),
        "parentheses": sum(c in "{}⟨⟩[]()" for c in text),
        "letters": sum(c.isalpha() for c in text),
        "line_breaks": text.count("\n"),
        "lowers_to_ascii": any(c >= "\x80" and any(x < "\x80" for x in c.lower()) for c in text),
        "words": len(words),
        "word_characters": sum(map(len, words)),
        "longest_word": max(map(len, words), default=0),
        "words_with_letters": sum(any(c.isalpha() for c in word) for word in words),
        "symbol_words": sum(
            word in ("...", "[...]", "…", "(...)", "[…]", "-»") or len(re.findall("#+", word)) / len(word) > 0.5
            for word in words
        ),
        "common_words": sum(word in ("the", "be", "to", "of", "and", "that", "have", "with") for word in words),
        "lines": len(lines),
        "bullet_lines": sum(line.strip()[0] in "•‣⁃⁌⁍∙○●◘◦⦾⦿" for line in lines),
        "end_mark_lines": sum(line.strip()[-1] in ".?!\"'" for line in lines),
        "ellipsis_lines": sum(
            line.strip().lower().endswith(("...", "[...]", "…", "(...)", "[…]", "-»", "read more..", "read more"))
            for line in lines
        ),
        "line_characters": sum(map(len, lines)),
        "distinct_lines": len(set(lines)),
        "distinct_line_characters": sum(map(len, set(lines))),
        "paragraphs": len(paragraphs),
        "paragraph_characters": sum(map(len, paragraphs)),
        "distinct_paragraphs": len(set(paragraphs)),
        "distinct_paragraph_characters": sum(map(len, set(paragraphs))),
        "url_characters": sum(map(len, urls)),
        "pornographic_urls": any("porn" in url for url in urls),
        "terminal_lines": sum(line.strip()[-1] in TERMINALS for line in lines),
        "short_lines": sum(len(line) <= 30 for line in lines),
        "distinct_common_words": len({"the", "be", "to", "of", "and", "that", "have", "with"} & set(words)),
        "longest_line": max(map(len, text.split("\n"))),
        **{name: _ngram(name, text) for name in NGRAMS},
    }


def _ngram(name: str, text: str) -> int:
    kind, length = name.removesuffix("gram").split("_")
    n, words = int(length), text.split()
    if len(words) < n:
        return len(text)
    ngrams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    if kind == "top":
        top = " ".join(Counter(ngrams).most_common(1)[0][0])
        return len(text) - len(text.replace(top, ""))
    repeated = {i + j for i, ngram in enumerate(ngrams) if ngram in ngrams[:i] for j in range(n)}
    blanks, covered = 0, 0
    for i, ngram in enumerate(ngrams):
        if ngram in ngrams[:i]:
            blanks += min(n - max(covered - i, 0), n - 1)
            covered = i + n
    return sum(len(words[i]) for i in repeated) + blanks


def assert_found(texts: list[str], features: Features) -> None:
    for row, text in enumerate(texts):
        found = {name: int(features[name][row]) for name in EVERYTHING}
        wanted = {name: int(value) for name, value in expected(text).items()}
        assert {name: found[name] for name in wanted} == wanted, repr(text)


@settings(deadline=None, max_examples=400)
@given(st.lists(TEXT, min_size=1, max_size=4))
@example([""])
@example([" \n\t \n\n "])
@example(["a\n\n\nb\n\n\n\n", "\n\n", "\n"])
@example(["http://", "http://é", "https://a%2", "https://a%20%", "xhttps://y", "http://a http://b"])
@example(["the be to of and that have with", "that the", "The THE"])
@example(["Privacy policy http://a.b \n the http://a.b the Privacy policy"])
@example(["to be to be to be to be to be to be to be to be to be to be"])
def test_every_feature_is_what_python_finds(texts: list[str]) -> None:
    assert_found(texts, Features.of(pa.array(texts, pa.large_string()), EVERYTHING))


# Bytes that a hash could take for the length of a text, or for the end of it.
CONTROLS = [chr(code) for code in [*range(10), *range(11, 33), 127]]
CONTROL_TEXT = st.lists(st.sampled_from([*CONTROLS, "\0" * 7, "a"]), max_size=18).map("".join)


@settings(deadline=None, max_examples=300)
@given(st.lists(CONTROL_TEXT, min_size=2, max_size=8), st.sampled_from(["\n", "\n\n", " "]))
@example(["\x01", ""], "\n\n")
@example(["\x08" + "\0" * 7, ""], "\n\n")
@example(["\x09" + "\0" * 7 + "a", "\x0a" + "\0" * 7 + "a\0"], "\n\n")
def test_texts_of_control_characters_have_the_features_python_finds(parts: list[str], separator: str) -> None:
    texts = [separator.join(parts)]
    assert_found(texts, Features.of(pa.array(texts, pa.large_string()), EVERYTHING))


def test_short_paragraphs_of_control_characters_are_counted_as_distinct() -> None:
    paragraphs = ["", *CONTROLS, *(a + b for a in CONTROLS for b in CONTROLS)]
    paragraphs += [chr(size) + "\0" * (size - 1) for size in range(3, 200)]
    text = "\n\n".join(paragraphs)
    features = Features.of(
        pa.array([text], pa.large_string()), ["distinct_paragraphs", "distinct_paragraph_characters"]
    )
    assert features["distinct_paragraphs"].tolist() == [len(set(text.split("\n\n")))]
    assert features["distinct_paragraph_characters"].tolist() == [sum(map(len, set(text.split("\n\n"))))]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_are_scanned_at_any_offset_of_a_column(kind: pa.DataType) -> None:
    texts = ["left out", "one two", "", "drei vier", "五", "left out too"]
    column = pa.chunked_array([pa.array(texts[:3], kind), pa.array(texts[3:], kind)]).slice(1, 4)
    assert_found(texts[1:5], Features.of(column, EVERYTHING))


def test_a_null_is_an_empty_text() -> None:
    features = Features.of(pa.array([None, "a b", None, ""], pa.large_string()), ["words", "characters"])
    assert features["words"].tolist() == [0, 2, 0, 0]
    assert features["characters"].tolist() == [0, 3, 0, 0]
    assert features.text(0) == ""
    assert features.text(1) == "a b"


@pytest.mark.parametrize("texts", [[], [None], ["", ""]])
def test_an_empty_column_can_be_scanned(texts: list[str | None]) -> None:
    assert Features.of(pa.array(texts, pa.large_string()), ["words"])["words"].tolist() == [0] * len(texts)
    assert Features.of(pa.chunked_array([], pa.large_string()), ["words"])["words"].tolist() == []


def test_a_very_large_document_gets_its_own_workspace() -> None:
    large = "to be or not to be that is the question\n\n" * 40_000
    features = Features.of(pa.array(["one two", large, "three"], pa.large_string()), EVERYTHING)
    assert features["words"].tolist() == [2, 400_000, 1]
    assert features["distinct_paragraphs"].tolist() == [1, 2, 1]
    assert features["duplicate_5gram"][1] == _ngram_of_repeats(large)


def _ngram_of_repeats(text: str) -> int:
    words = text.split()
    return sum(map(len, words[10:])) + len(words) - 10 - 1


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from("abcdef"), min_size=4, max_size=64))
def test_ngrams_are_counted_the_same_in_a_table_that_is_too_small_for_all(words: list[str]) -> None:
    sizes = np.array([len(word) for word in words])
    borders = np.empty(2 * len(words), np.int32)
    borders[0::2] = np.cumsum(sizes + 1) - sizes - 1
    borders[1::2] = borders[0::2] + sizes
    before = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    data = np.frombuffer(" ".join(words).encode(), np.uint8)
    hashes = np.array([hash_word(data, int(borders[2 * i]), int(sizes[i])) for i in range(len(words))], np.uint64)
    top, duplicate = np.array([-1, 0, 1, 2, 3]), np.array([-1, 4, 5, 6, 7])
    found = []
    for slots in (table_size(len(words)), table_size(len(words)) // 2):
        features = np.zeros(8, np.int64)
        count_repetition(
            data, borders, before, hashes, len(words), len(data), top, duplicate, features,
            np.empty(slots, np.uint64), np.empty(slots, np.int32), np.empty(len(words), np.int32),
            np.empty(len(words), np.uint64), np.empty(len(words), np.int32),
        )  # fmt: skip
        found.append(features.tolist())
    assert found[0] == found[1]


@pytest.mark.slow
def test_ngrams_of_a_document_of_a_million_words_are_what_python_finds() -> None:
    draw = random.Random(1)
    text = " ".join(f"{draw.getrandbits(11):x}" for _ in range(1_060_000))
    column = pa.array([text], pa.large_string())
    filters = [RepeatingTopNGramsFilter(n=2), RepeatingDuplicateNGramsFilter(n=2)]
    features = Features.of(column, [name for each in filters for name in each.features() or ()])
    for each in filters:
        assert each.score_features(features).tolist() == [each.score_document(text)]


# Scans a document of many words that hardly repeat, and prints how many times its size this process grew at most.
MEASURED = """
import random
import pyarrow as pa
from penstock.kernels.features import Features
def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
names = ["distinct_lines", "distinct_paragraphs", "words", "top_2gram", *(f"duplicate_{n}gram" for n in range(2, 11))]
Features.of(pa.array(["a b"], pa.large_string()), names)
draw = random.Random(1)
text = b" ".join(b"%x" % draw.getrandbits(20) for _ in range(3_000_000))
column = pa.array([text], pa.large_binary()).cast(pa.large_string())
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")  # forget what building the text took
before, size = peak(), len(text)
assert Features.of(column, names)["words"].tolist() == [3_000_000]
print((peak() - before) / size)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the most memory a process held")
@pytest.mark.slow
def test_the_scan_of_a_large_document_takes_a_small_multiple_of_its_size() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 9


def test_only_the_requested_features_are_available() -> None:
    features = Features.of(pa.array(["a"]), ["words"])
    assert list(features) == ["words"]
    assert len(features) == 1
    with pytest.raises(KeyError, match="no feature is called 'wrods'; there are characters"):
        Features.of(pa.array(["a"]), ["wrods"])


@settings(deadline=None, max_examples=100)
@given(st.lists(TEXT, min_size=1, max_size=3), st.sampled_from(EVERYTHING))
def test_a_feature_does_not_depend_on_the_other_requested_features(texts: list[str], name: str) -> None:
    column = pa.array(texts, pa.large_string())
    np.testing.assert_array_equal(Features.of(column, [name])[name], Features.of(column, EVERYTHING)[name])
