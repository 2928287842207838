"""Read the articles of a Wikipedia dump, one at a time.

A dump consists of many bzip2 streams of about a hundred pages each, which together are one XML document. It is split
at the page tags, which cannot occur inside a page, so damage in one stream costs only the pages of that stream.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from penstock.storage.filesystem import open_stored
from penstock.text.extract.members import DamagedMember, Members
from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.records import DocumentIterator

_BEGIN, _END = b"<page>", b"</page>"
_ARTICLES = "0"
# The namespaces whose links are not text of the article: media, files; and categories.
_MEDIA_KEYS, _CATEGORY_KEYS = ("-2", "6"), ("14",)
_LARGEST_PAGE = 64 << 20


class WikipediaIterator(DocumentIterator):
    """Yield the articles of a dump; redirects and pages that are not articles are skipped and counted.

    A record has ``title``, ``id``, ``url``, ``language``, ``source_id`` and the markup in ``raw_content``.
    ``log_frequency`` is accepted for compatibility and has no effect.

    >>> import bz2, tempfile
    >>> page = "<page><title>Ada</title><ns>0</ns><id>7</id><revision><text>Poet</text></revision></page>"
    >>> with tempfile.NamedTemporaryFile(suffix=".xml.bz2") as file:
    ...     _ = file.write(bz2.compress(page.encode()))
    ...     file.flush()
    ...     [article] = WikipediaIterator("en").iterate(file.name)
    >>> article["url"], article["raw_content"]
    ('https://en.wikipedia.org/wiki/Ada', 'Poet')
    """

    def __init__(self, language: str = "en", log_frequency: int = 1000) -> None:
        self._language = language
        # Not used: the executor shows progress. Accepted for scripts that pass it.
        self._log_frequency = log_frequency

    def iterate(self, file_path: str) -> Iterator[dict[str, Any] | Skipped | Damaged]:
        """Yield a record per article, its markup in ``raw_content``."""
        source = str(file_path).rpartition("/")[2]
        with open_stored(str(file_path)) as stream:
            names: dict[str, list[str]] = {}
            for piece in _pages(Members(stream)):
                if isinstance(piece, Damaged):
                    yield piece
                elif piece.startswith(_BEGIN):
                    record = _article(piece, self._language)
                    yield {**record, "source_id": source, **names} if isinstance(record, dict) else record
                else:
                    names = _namespaces(piece) or names

    def output_columns(self) -> list[str]:
        """Return the fields of a record."""
        return ["title", "id", "url", "language", "source_id", "raw_content"]


def _pages(members: Members) -> Iterator[bytes | Damaged]:
    """Yield the pages as XML, and the head of the dump before the first page."""
    buffer = bytearray()
    searched = 0
    while True:
        end = buffer.find(_END, searched)
        if end >= 0:
            begin = buffer.find(_BEGIN, 0, end)
            if begin > 0 and (head := bytes(buffer[:begin])).strip():
                yield head
            if begin >= 0:
                yield bytes(buffer[begin : end + len(_END)])
            del buffer[: end + len(_END)]
            searched = 0
            continue
        searched = max(0, len(buffer) - len(_END))
        if len(buffer) > _LARGEST_PAGE:
            yield Damaged(f"a page of more than {_LARGEST_PAGE:,} bytes", members.start)
            buffer.clear()
        try:
            piece = members.read_piece()
        except DamagedMember as error:
            yield Damaged(f"the stream at byte {members.start}: {error}", members.start)
            buffer.clear()
            searched = 0
            if not members.skip_to(b""):
                return
            continue
        if not piece:
            if _BEGIN in buffer:
                yield Damaged("the file ends in the middle of a page; was it downloaded completely?", members.start)
            return
        buffer += piece


def _article(page: bytes, language: str) -> dict[str, Any] | Skipped | Damaged:
    try:
        element = ET.fromstring(page)
    except ET.ParseError as error:
        return Damaged(f"a page is not XML: {error}", excerpt=page[:200].decode("utf-8", "replace"))
    title, namespace, number = (element.findtext(name) for name in ("title", "ns", "id"))
    if not (title and namespace and number):
        return Damaged("a page without title, namespace or id", excerpt=page[:200].decode("utf-8", "replace"))
    if namespace != _ARTICLES:
        return Skipped(f"not an article: namespace {namespace}")
    if element.find("redirect") is not None:
        return Skipped("a redirect")
    content = element.findtext("revision/text")
    if not content:
        return Skipped("an empty article")
    url = f"https://{language}.wikipedia.org/wiki/{quote(title)}"
    return {"title": title, "id": number, "url": url, "language": language, "raw_content": content}


def _namespaces(head: bytes) -> dict[str, list[str]]:
    """Return this wiki's names for the namespaces of files and categories, from the head of the dump."""
    begin, end = head.find(b"<namespaces>"), head.find(b"</namespaces>")
    if begin < 0 or end < 0:
        return {}
    try:
        names = {
            entry.get("key"): entry.text or "" for entry in ET.fromstring(head[begin : end + len(b"</namespaces>")])
        }
    except ET.ParseError:
        return {}
    return {
        "media_names": [names[key] for key in _MEDIA_KEYS if key in names],
        "category_names": [names[key] for key in _CATEGORY_KEYS if key in names],
    }
