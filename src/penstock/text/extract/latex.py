"""Extract the body of a paper from LaTeX sources: still LaTeX, with the authors' macros expanded."""

from __future__ import annotations

import re
from typing import Any

from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.records import DocumentExtractor

_SECTION = re.compile(r"\\(?:chapter|part|section|subsection|subsubsection|paragraph|subparagraph)\b\*?\s*[\[{]")
_END = re.compile(r"\\appendix\b|\\begin\{(?:references|REFERENCES|thebibliography)\}|\\bibliography\{")
_COMMENT_LINE = re.compile(r"^[ \t]*%.*\n?", re.MULTILINE)
_COMMENT = re.compile(r"[ \t]*(?<!\\)%.*$", re.MULTILINE)
_MACRO = re.compile(r"\\(?:newcommand\*?\s*\{?|def\s*)(\\[a-zA-Z0-9]+)\}?\s*\{(.*)\}[ \t]*$", re.MULTILINE)
_PASSES = 3
_MOST_GROWTH = 4


class ArxivExtractor(DocumentExtractor):
    r"""Keep the text between the first section and the references; remove comments, expand macros without arguments.

    Returns ``id``, ``source_id`` and ``text``. A paper without a section is skipped and counted.

    >>> record = {"id": "2401.00001", "source_id": "a.tar", "content": [r"\section{One} Text. % a note"]}
    >>> ArxivExtractor().extract(record)["text"]
    '\\section{One} Text.'
    """

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | Damaged | None:
        """Return the paper's id and text."""
        text = clean_latex(record.get("content") or [])
        if not text:
            return Skipped("no section in the paper")
        return {"id": record.get("id"), "source_id": record.get("source_id"), "text": text}

    def input_columns(self) -> list[str]:
        """Return the fields that a record must have."""
        return ["id", "source_id", "content"]

    def output_columns(self) -> list[str]:
        """Return the fields of a document."""
        return ["id", "source_id", "text"]


def clean_latex(sources: list[str]) -> str:
    r"""Return the bodies of some source files, joined; a file without a section has none.

    >>> clean_latex([r"\def\R{\mathbb{R}}" "\n" r"\section{One} In $\R$, 50\% of it. % why?" "\n" r"\appendix More"])
    '\\section{One} In $\\mathbb{R}$, 50\\% of it.'
    """
    sources = [_COMMENT.sub("", _COMMENT_LINE.sub("", source)) for source in sources]
    macros = {match[1]: match[2] for source in sources for match in _MACRO.finditer(source)}
    bodies = (_expand(_body(source), macros).strip() for source in sources)
    return "\n".join(body for body in bodies if body)


def _body(source: str) -> str:
    begin = _SECTION.search(source)
    if begin is None:
        return ""
    end = _END.search(source, begin.end())
    return source[begin.start() : end.start() if end else len(source)]


def _expand(text: str, macros: dict[str, str]) -> str:
    """Replace macros by their definitions; a definition may use other macros."""
    if not macros or not text:
        return text
    names = "|".join(re.escape(name) for name in sorted(macros, key=len, reverse=True))
    pattern = re.compile(rf"(?:{names})(?![a-zA-Z0-9])")
    for _ in range(_PASSES):
        expanded = pattern.sub(lambda match: macros[match[0]], text)
        if expanded == text or len(expanded) > _MOST_GROWTH * len(text) + 100_000:
            break
        text = expanded
    return text
