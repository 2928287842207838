"""Repair text that was decoded in the wrong encoding; ftfy is called only for lines that need it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.extras import require
from penstock.text.modifiers.document_modifier import TextModifier

if TYPE_CHECKING:
    from ftfy import TextFixerConfig

# Control characters that ftfy removes, escape included, and those of Latin-1 that it treats as Windows-1252.
_CONTROLS = r"[\x00-\x08\x0b\x0e-\x1f\x7f\x{80}-\x{9f}\x{206a}-\x{206f}\x{feff}\x{fff9}-\x{fffc}]"

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class UnicodeReformatter(TextModifier):
    """Repair mojibake, HTML entities and stray control characters with ftfy.

    The parameters are those of ``ftfy.TextFixerConfig``; ``config`` takes a whole configuration instead. Needs
    ``penstock[clean]``.

    >>> UnicodeReformatter().modify_document("l'humanitÃ© &amp; co")
    "l'humanité & co"
    """

    name = "unicode_reformatter"

    def __init__(
        self,
        config: TextFixerConfig | None = None,
        unescape_html: str | bool = "auto",
        remove_terminal_escapes: bool = True,
        fix_encoding: bool = True,
        restore_byte_a0: bool = True,
        replace_lossy_sequences: bool = True,
        decode_inconsistent_utf8: bool = True,
        fix_c1_controls: bool = True,
        fix_latin_ligatures: bool = False,
        fix_character_width: bool = False,
        uncurl_quotes: bool = False,
        fix_line_breaks: bool = False,
        fix_surrogates: bool = True,
        remove_control_chars: bool = True,
        normalization: Literal["NFC", "NFD", "NFKC", "NFKD"] | None = None,
        max_decode_length: int = 1000000,
        explain: bool = True,
    ) -> None:
        self.config: Any = config or require("ftfy", "clean", "UnicodeReformatter").TextFixerConfig(
            unescape_html=unescape_html,
            remove_terminal_escapes=remove_terminal_escapes,
            fix_encoding=fix_encoding,
            restore_byte_a0=restore_byte_a0,
            replace_lossy_sequences=replace_lossy_sequences,
            decode_inconsistent_utf8=decode_inconsistent_utf8,
            fix_c1_controls=fix_c1_controls,
            fix_latin_ligatures=fix_latin_ligatures,
            fix_character_width=fix_character_width,
            uncurl_quotes=uncurl_quotes,
            fix_line_breaks=fix_line_breaks,
            fix_surrogates=fix_surrogates,
            remove_control_chars=remove_control_chars,
            normalization=normalization,
            max_decode_length=max_decode_length,
            explain=explain,
        )

    def modify_document(self, text: str) -> str:
        """Return the repaired text."""
        repaired: str = require("ftfy", "clean", "UnicodeReformatter").fix_text(text, self.config)
        return repaired

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Select texts that ftfy may change, with a compiled search."""
        return pc.match_substring_regex(texts, self._suspicious)

    def modify_texts(self, texts: pa.Array) -> pa.Array:
        """Repair the lines that need it."""
        suspects = pc.fill_null(self.could_change(texts), False)
        documents = texts.filter(suspects).to_pylist()
        # ftfy repairs each line separately, so lines without errors can be left out. All lines are searched in one
        # call: starting a search takes longer than searching a document.
        lines = [_LINE.findall(text) for text in documents]
        ailing = iter(self.could_change(pa.array(itertools.chain(*lines), pa.large_string())).to_pylist())
        modified = [self._repair(text, own, ailing) for text, own in zip(documents, lines, strict=True)]
        if modified == documents:
            return texts
        return pc.replace_with_mask(texts, suspects, pa.array(modified, texts.type))

    def _repair(self, text: str, lines: list[str], ailing: Iterator[bool]) -> str:
        """Return one document with its damaged lines repaired."""
        to_do = [i for i, ails in enumerate(itertools.islice(ailing, len(lines))) if ails]
        if max(map(len, lines)) > self.config.max_decode_length:
            return self.modify_document(text)
        fix_line = require("ftfy", "clean", "UnicodeReformatter").fix_text_segment
        config = self.config
        first_tag = next((i for i, line in enumerate(lines) if "<" in line), len(lines))
        for i in to_do:
            if i >= first_tag and config.unescape_html == "auto":  # ftfy treats the text after the first tag as HTML
                config = config._replace(unescape_html=False)
            lines[i] = fix_line(lines[i], config)
        return "".join(lines)

    @cached_property
    def _suspicious(self) -> str:
        """A regular expression for Arrow that matches everything the configuration can change."""
        config = self.config
        found = [_CONTROLS]
        if config.unescape_html:
            found.append("&")
        if config.fix_line_breaks:
            found.append("\r")
        anything = ("fix_latin_ligatures", "fix_character_width", "uncurl_quotes", "fix_line_breaks", "normalization")
        if any(getattr(config, option) for option in anything):
            found.append(r"[^\x00-\x7f]")
        elif config.fix_encoding:
            found.append(_mojibake())
        return "|".join(found)


def _mojibake() -> str:
    """Return ftfy's pattern for mojibake in Arrow's syntax, where it is a hundred times as fast.

    What the dialects do not share is widened, to any character or to nothing: too many are found, never too few.
    """
    verbose = require("ftfy.badness", "clean", "UnicodeReformatter").BADNESS_RE.pattern
    return f"(?s:{_VERBOSE_TOKEN.sub(_translated, verbose)})"


_VERBOSE_TOKEN = re.compile(r"(?P<kept>\[(?:\\.|[^\]\\])*\]|\\[^sw])|(?P<any>\\[sw])|\^|#[^\n]*|\s")


def _translated(token: re.Match[str]) -> str:
    return token["kept"] or ("." if token["any"] else "")
