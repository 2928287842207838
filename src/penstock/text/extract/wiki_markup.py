"""Convert wiki markup to plain text, without boxes, tables, notes and pictures."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, ClassVar

from penstock.extras import require
from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.records import DocumentExtractor

# Namespace names that every wiki understands, and former names in other languages. The current names in the language
# of a wiki are in the head of its dump.
_MEDIA = ("file", "image", "media")
_OLD_MEDIA = (
    "afbeelding", "archivo", "arquivo", "bestand", "bild", "datei", "fichier", "ficheiro", "fil", "grafika", "imagem",
    "imagen", "immagine", "obrázek", "plik", "slika", "soubor", "tiedosto", "изображение", "файл", "зображення",
    "ファイル", "画像", "文件", "图像", "檔案", "圖像", "파일", "그림", "ملف", "صورة",
)  # fmt: skip
_CATEGORY = ("category",)
_MAGIC_WORD = re.compile(r"__[A-Z]+__")
_LINE_END = re.compile(r"[ \t]+\n")
_BLANK_LINES = re.compile(r"\n{3,}")
_NOT_TEXT = frozenset(("ref", "table", "gallery", "math", "timeline", "imagemap", "references", "style", "score"))
_KEPT = ("title", "id", "url", "language", "source_id")


class WikipediaExtractor(DocumentExtractor):
    """Convert the markup of an article to text; sections keep their headings and are separated by an empty line.

    Returns ``text``, ``title``, ``id``, ``url``, ``language`` and ``source_id``. Articles without text are skipped and
    counted. Needs ``penstock[extract]``.

    >>> WikipediaExtractor().extract({"title": "Ada", "raw_content": "'''Ada''' was a [[poet|thinker]]."})["text"]
    'Ada was a thinker.'
    """

    # Some pages nest templates so deeply that parsing does not end.
    cpu_limit_s: ClassVar[float | None] = 60.0

    def __init__(self, language: str = "en") -> None:
        self._language = language

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | Damaged | None:
        """Return the article's text and the fields that say where it is from."""
        markup = record.get("raw_content")
        if not markup:
            return Skipped("an empty article")
        text = plain_text(markup, record.get("media_names", ()), record.get("category_names", ()))
        return (
            {"text": text, **{name: record.get(name) for name in _KEPT}} if text else Skipped("no text in the article")
        )

    def input_columns(self) -> list[str]:
        """Return the fields that a record must have."""
        return [*_KEPT, "raw_content"]

    def output_columns(self) -> list[str]:
        """Return the fields of a document."""
        return ["text", *_KEPT]


def plain_text(markup: str, media_names: Collection[str] = (), category_names: Collection[str] = ()) -> str:
    """Return the text of some markup; links in a namespace of files are left out, categories lose their prefix.

    >>> print(plain_text("'''Ada''' was a [[poet|thinker]].<ref>x</ref>[[File:A.jpg|Her]]\\n== Life ==\\nShort."))
    Ada was a thinker.
    <BLANKLINE>
    Life
    Short.
    """
    parser = require("mwparserfromhell", "extract", "Wikipedia")
    media = {name.lower() for name in (*_MEDIA, *_OLD_MEDIA, *media_names)}
    categories = {name.lower() for name in (*_CATEGORY, *category_names)}
    sections = []
    for section in parser.parse(markup).get_sections(flat=True, include_lead=True, include_headings=True):
        text = _MAGIC_WORD.sub("", _render(section, media, categories))
        if text := _BLANK_LINES.sub("\n\n", _LINE_END.sub("\n", text)).strip():
            sections.append(text)
    return "\n\n".join(sections)


def _render(code: Any, media: set[str], categories: set[str]) -> str:  # noqa: ANN401 - nodes of an optional library
    return "".join(_render_node(node, media, categories) for node in code.nodes)


def _render_node(node: Any, media: set[str], categories: set[str]) -> str:  # noqa: ANN401
    kind = type(node).__name__
    if kind == "Text":
        return str(node.value)
    if kind == "Wikilink":
        prefix, colon, rest = str(node.title).partition(":")
        if colon and prefix.strip().lower() in media:
            return ""
        if colon and prefix.strip().lower() in categories:
            return rest
        return _render(node.text if node.text is not None else node.title, media, categories)
    if kind == "Tag":
        tag = str(node.tag).strip().lower()
        if tag == "br":
            return "\n"
        if tag in _NOT_TEXT or node.contents is None:
            return ""
        return _render(node.contents, media, categories)
    if kind == "ExternalLink":
        if node.title is not None:
            return _render(node.title, media, categories)
        return "" if node.brackets else str(node.url)
    if kind == "Heading":
        return _render(node.title, media, categories).strip()
    if kind == "HTMLEntity":
        return str(node.normalize())
    return ""  # templates, their arguments, comments
