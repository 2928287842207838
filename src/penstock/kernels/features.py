"""Compute features of texts; only the passes of the scan that the requested features need are run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels import columns as c
from penstock.kernels.characters import byte_counters, character_flags
from penstock.kernels.native import is_compiled
from penstock.kernels.text_buffer import text_buffer

Numbers = npt.NDArray[np.int64]

# Name of a feature -> its column, and the pass that computes it (0: the pass over bytes, which always runs).
_FEATURES: Mapping[str, tuple[int, int]] = {
    "characters": (c.CHARACTERS, 0),
    "plain_characters": (c.PLAIN_CHARACTERS, 0),
    "decimals": (c.DECIMALS, 0),
    "blanks": (c.BLANKS, 0),
    "parentheses": (c.PARENTHESES, 0),
    "letters": (c.LETTERS, 0),
    "line_breaks": (c.LINE_BREAKS, 0),
    "lowers_to_ascii": (c.LOWERS_TO_ASCII, 0),
    "words": (c.WORDS, c.WORD_GROUP),
    "word_characters": (c.WORD_CHARACTERS, c.WORD_GROUP),
    "longest_word": (c.LONGEST_WORD, c.WORD_GROUP),
    "words_with_letters": (c.WORDS_WITH_LETTERS, c.WORD_GROUP),
    "symbol_words": (c.SYMBOL_WORDS, c.WORD_GROUP),
    "common_words": (c.COMMON_WORDS, c.WORD_GROUP),
    "lines": (c.LINES, c.LINE_GROUP),
    "bullet_lines": (c.BULLET_LINES, c.LINE_GROUP),
    "end_mark_lines": (c.END_MARK_LINES, c.LINE_GROUP),
    "ellipsis_lines": (c.ELLIPSIS_LINES, c.LINE_GROUP),
    "line_characters": (c.LINE_CHARACTERS, c.REPEATED_LINE_GROUP),
    "distinct_lines": (c.DISTINCT_LINES, c.REPEATED_LINE_GROUP),
    "distinct_line_characters": (c.DISTINCT_LINE_CHARACTERS, c.REPEATED_LINE_GROUP),
    "paragraphs": (c.PARAGRAPHS, c.PARAGRAPH_GROUP),
    "paragraph_characters": (c.PARAGRAPH_CHARACTERS, c.PARAGRAPH_GROUP),
    "distinct_paragraphs": (c.DISTINCT_PARAGRAPHS, c.PARAGRAPH_GROUP),
    "distinct_paragraph_characters": (c.DISTINCT_PARAGRAPH_CHARACTERS, c.PARAGRAPH_GROUP),
    "lorem_ipsum": (c.LOREM_IPSUM, c.PHRASE_GROUP),
    "boilerplate_paragraphs": (c.BOILERPLATE_PARAGRAPHS, c.PHRASE_GROUP),
    "url_characters": (c.URL_CHARACTERS, c.URL_GROUP),
    "pornographic_urls": (c.PORNOGRAPHIC_URLS, c.URL_GROUP),
    "terminal_lines": (c.TERMINAL_LINES, c.LINE_ENDING_GROUP),
    "short_lines": (c.SHORT_LINES, c.LINE_ENDING_GROUP),
    "distinct_common_words": (c.DISTINCT_COMMON_WORDS, c.STOP_WORD_GROUP),
    "longest_line": (c.LONGEST_LINE, c.LONGEST_LINE_GROUP),
}
# Positions in a document are 32-bit numbers.
_MAX_DOCUMENT_BYTES = (1 << 31) - 1
_NGRAM = re.compile(r"(top|duplicate)_([1-9][0-9]*)gram")


class Features(Mapping[str, Numbers]):
    """The features of a batch, one array per feature; ``text(row)`` returns the document itself.

    >>> features = Features.of(pa.array(["one two", "a b a b"], pa.large_string()), ["words", "duplicate_2gram"])
    >>> features["words"].tolist(), features["duplicate_2gram"].tolist()
    ([2, 4], [0, 3])
    """

    def __init__(self, texts: pa.ChunkedArray, columns: Mapping[str, Numbers]) -> None:
        self._texts = texts
        self._columns = columns

    @classmethod
    def of(cls, texts: pa.ChunkedArray | pa.Array, wanted: Iterable[str]) -> Features:
        """Compute some features of documents; a null document counts as empty."""
        chunked = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])
        groups, positions, top, duplicate = _passes(wanted)
        width = max([c.FIXED_COLUMNS, *(position + 1 for position in positions.values())])
        matrix = np.zeros((len(chunked), width), dtype=np.int64)
        row = 0
        for chunk in chunked.chunks:
            _scan_chunk(chunk, groups, top, duplicate, matrix[row : row + len(chunk)])
            row += len(chunk)
        return cls(chunked, {name: matrix[:, position] for name, position in positions.items()})

    def text(self, row: int) -> str:
        """Return a document."""
        return self._texts[row].as_py() or ""

    def paragraphs(self, row: int) -> Iterator[str]:
        """Yield the paragraphs of a document one by one: a large one takes several times as much as a Python string.

        >>> list(Features.of(pa.array(["a" + chr(10) * 2 + "b"]), []).paragraphs(0))
        ['a', 'b']
        """
        text = self._texts[row]
        data = text.as_buffer().to_pybytes() if text.is_valid else b""
        begin = 0
        while (end := data.find(b"\n\n", begin)) >= 0:
            yield data[begin:end].decode()
            begin = end + 2
        yield data[begin:].decode()

    def __getitem__(self, name: str) -> Numbers:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def is_warm() -> bool:
    """Return True if the scan has been compiled on this machine."""
    from penstock.kernels.text_scan import scan

    return is_compiled(scan)


def warm_up() -> None:
    """Compile the scan, or load the compiled code."""
    Features.of(pa.array(["a word"], pa.large_string()), ["words"])


def _passes(wanted: Iterable[str]) -> tuple[int, dict[str, int], Numbers, Numbers]:
    """Return the passes to run, the column of each feature, and the columns of n-grams by length."""
    groups = 0
    positions: dict[str, int] = {}
    lengths: dict[str, dict[int, int]] = {"top": {}, "duplicate": {}}
    for name in dict.fromkeys(wanted):
        if name in _FEATURES:
            positions[name], group = _FEATURES[name]
            groups |= group
            continue
        match = _NGRAM.fullmatch(name)
        if match is None:
            raise KeyError(f"no feature is called {name!r}; there are {', '.join(_FEATURES)}, top_2gram, …")
        groups |= c.NGRAM_GROUP
        grams = lengths[match[1]]
        positions[name] = grams[int(match[2])] = c.FIXED_COLUMNS + sum(map(len, lengths.values()))
    longest = max([1, *lengths["top"], *lengths["duplicate"]])
    top, duplicate = np.full(longest + 1, -1), np.full(longest + 1, -1)
    for columns, by_length in ((top, lengths["top"]), (duplicate, lengths["duplicate"])):
        for length, position in by_length.items():
            columns[length] = position
    return groups, positions, top, duplicate


def _scan_chunk(chunk: pa.Array, groups: int, top: Numbers, duplicate: Numbers, matrix: Numbers) -> None:
    from penstock.kernels.text_scan import scan  # imported on first use: this compiles the scan

    if len(chunk):
        data, offsets = text_buffer(chunk)
        if data.size > _MAX_DOCUMENT_BYTES and (largest := int(np.diff(offsets).max())) > _MAX_DOCUMENT_BYTES:
            raise ValueError(
                f"a document of {largest:,} bytes is too large for a filter; the most is {_MAX_DOCUMENT_BYTES:,}."
            )
        scan(data, offsets, groups, top, duplicate, character_flags(), byte_counters(), matrix)
