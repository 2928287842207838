"""Remove cookie notices, terms of use and similar boilerplate at the top or the bottom of a document."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.patterns import LOREM_IPSUM, POLICY_PHRASES
from penstock.text.modifiers.document_modifier import TextModifier

_ANY_PHRASE = "|".join((LOREM_IPSUM, *POLICY_PHRASES))


class BoilerPlateStringModifier(TextModifier):
    r"""Remove boilerplate paragraphs that form one block at the top or at the bottom of a document.

    Boilerplate in any other place leaves the document unchanged; with ``remove_if_at_top_or_bottom=False`` a single
    such paragraph empties the document. "Lorem ipsum" always empties it. A document without boilerplate is not changed.

    >>> BoilerPlateStringModifier().modify_document("Real text.\n\nWe use cookies.")
    'Real text.'
    """

    name = "boiler_plate_string_modifier"

    def __init__(self, remove_if_at_top_or_bottom: bool = True) -> None:
        self.remove_if_at_top_or_bottom = remove_if_at_top_or_bottom

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Select texts that contain one of the phrases, in upper or lower case."""
        return pc.match_substring_regex(texts, _ANY_PHRASE, ignore_case=True)

    def modify_document(self, text: str) -> str:
        """Return the document without boilerplate."""
        paragraphs = text.split("\n\n")
        lowered = [paragraph.lower() for paragraph in paragraphs]
        if any(LOREM_IPSUM in paragraph for paragraph in lowered):
            return ""
        found = [i for i, paragraph in enumerate(lowered) if any(phrase in paragraph for phrase in POLICY_PHRASES)]
        if not found:
            return text
        if not self.remove_if_at_top_or_bottom:
            return ""
        first, last = found[0], found[-1]
        one_block = last - first + 1 == len(found) < len(paragraphs)
        if not one_block or (first > 0 and last < len(paragraphs) - 1):
            return text
        return "\n\n".join(paragraphs[:first] + paragraphs[last + 1 :])
