"""Extract the text of a stored page: decode it, detect the language, find the paragraphs."""

from __future__ import annotations

import unicodedata
from typing import Any, ClassVar

from penstock.extras import require
from penstock.text.extract.charset import decode_page
from penstock.text.extract.html_algorithms import HTMLExtractorAlgorithm, algorithm_named
from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.records import DocumentExtractor
from penstock.text.extract.stop_words import get_stop_list_dict


class CommonCrawlHTMLExtractor(DocumentExtractor):
    """Extract the text of a record that holds a page in ``content``, as bytes or decoded.

    Returns ``url``, ``warc_id``, ``source_id``, ``language`` and ``text``. Pages without text, and pages in a language
    that is not in ``stop_lists``, are skipped and counted by reason. Needs ``penstock[extract]``.

    >>> page = "<p>This is what we have seen of it, and it is all that there was to see for them.</p>"
    >>> found = CommonCrawlHTMLExtractor("resiliparse").extract({"url": "https://example.org", "content": page})
    >>> found["url"], found["language"], found["text"][:12]
    ('https://example.org', 'ENGLISH', 'This is what')
    """

    # CPU seconds per page: some pages keep a parser busy for hours.
    cpu_limit_s: ClassVar[float | None] = 30.0

    def __init__(
        self,
        algorithm: HTMLExtractorAlgorithm | str | None = None,
        algorithm_kwargs: dict[str, Any] | None = None,
        stop_lists: dict[str, frozenset[str]] | None = None,
    ) -> None:
        self.algorithm = algorithm_named(algorithm, algorithm_kwargs)
        self._stop_lists = stop_lists if stop_lists is not None else get_stop_list_dict()

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | Damaged | None:
        """Return the fields that say where the page is from, its language and its text."""
        found = self.extract_page(record.get("content"), str(record.get("content_type") or ""))
        if not isinstance(found, dict):
            return found
        return {**{name: record.get(name) for name in ("url", "warc_id", "source_id")}, **found}

    def extract_page(self, content: bytes | str | None, content_type: str = "") -> dict[str, str] | Skipped | Damaged:
        """Return language and text of a page, or the reason why it has none."""
        if not content:
            return Skipped("empty page")
        html = content if isinstance(content, str) else decode_page(content, content_type)
        if html is None:
            return Damaged("no encoding fits the page")
        language = detect_language(html)
        stop_words = self._stop_lists.get(language)
        if stop_words is None:
            return Skipped(f"no stop list for the language: {language}")
        paragraphs = self.algorithm.extract_text(html, stop_words, language)
        text = "\n\n".join(paragraphs or [])
        return {"language": language, "text": text} if text else Skipped("no text found in the page")

    def input_columns(self) -> list[str]:
        """Return the fields that a record must have."""
        return ["url", "warc_id", "source_id", "content"]

    def output_columns(self) -> list[str]:
        """Return the fields of a document."""
        return ["url", "warc_id", "source_id", "language", "text"]


def detect_language(html: str) -> str:
    """Return the language most of a page is in, in CLD2's name for it and in capitals: ``ENGLISH``, ``UNKNOWN``.

    >>> detect_language("<p>Dies ist ein kurzer Satz, den ein Mensch geschrieben hat.</p>")
    'GERMAN'
    """
    cld2 = require("pycld2", "extract", "Telling the language of a page")
    try:
        details = cld2.detect(html)[2]
    except (cld2.error, UnicodeEncodeError):  # control characters, halves of characters
        plain = "".join(character for character in html if unicodedata.category(character)[0] != "C")
        try:
            details = cld2.detect(plain)[2]
        except cld2.error:
            return "UNKNOWN"
    return str(details[0][0]).upper()
