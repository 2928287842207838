"""The text that each modifier returns; modifying a column equals modifying each document."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.testing import assert_stage_contract, make_batch
from penstock.text import (
    BoilerPlateStringModifier,
    FastTextLabelModifier,
    LineRemover,
    MarkdownRemover,
    Modify,
    NewlineNormalizer,
    QuotationRemover,
    Slicer,
    TextModifier,
    UnicodeReformatter,
    UrlRemover,
)

CASES: list[tuple[TextModifier, str, str]] = [
    (BoilerPlateStringModifier(), "We use cookies.\n\nNews", "News"),
    (BoilerPlateStringModifier(), "News\n\nTerms of Use\n\nPRIVACY POLICY", "News"),
    (BoilerPlateStringModifier(), "News\n\nWe use cookies.\n\nMore", "News\n\nWe use cookies.\n\nMore"),
    (
        BoilerPlateStringModifier(),
        "We use cookies.\n\nNews\n\nWe use cookies.",
        "We use cookies.\n\nNews\n\nWe use cookies.",
    ),
    (BoilerPlateStringModifier(), "We use cookies.", "We use cookies."),
    (BoilerPlateStringModifier(), "News\n\nLorem Ipsum dolor\n\nMore", ""),
    (BoilerPlateStringModifier(remove_if_at_top_or_bottom=False), "News\n\nWe use cookies.\n\nMore", ""),
    (LineRemover(["Share", ""]), "News\n\nShare\nShare this", "News\nShare this"),
    (LineRemover(["a.c"]), "abc\na.c", "abc"),
    (LineRemover([]), "abc\n", "abc\n"),
    (MarkdownRemover(), "**b** *i* _u_ [t](url)", "b i u url"),
    (MarkdownRemover(), "a * b\nc * d", "a * b\nc * d"),
    (NewlineNormalizer(), "a\n\n\n\nb\n\nc", "a\n\nb\n\nc"),
    (NewlineNormalizer(), "a\r\n\r\n\r\nb", "a\r\n\r\nb"),
    (QuotationRemover(), '"quoted"', "quoted"),
    (QuotationRemover(), '"one\ntwo"', "one\ntwo"),
    (QuotationRemover(), '"one"\n"two"', '"one"\n"two"'),
    (QuotationRemover(), '""', '""'),
    (Slicer(), "  text\x1f\n", "text"),
    (Slicer(2, -1, strip=False), "0123456 ", "23456"),
    (Slicer("<b>", "</b>"), "x <b>y</b> z", "<b>y</b>"),
    (Slicer("<b>", "</b>", include_left=False, include_right=False), "x <b>y</b> z", "y"),
    (Slicer("missing"), "text", ""),
    (Slicer(right="missing"), "text", ""),
    (UrlRemover(), "see HTTPS://a.b/c?d and www.e.f!", "see  and "),
    (UrlRemover(), "見る\u3000www.a.b\u3000次", "見る\u3000\u3000次"),
    (FastTextLabelModifier("__label__hq"), "a __label__x\nb", "__label__hq a  x b"),
    (UnicodeReformatter(), "schÃ¶n\nrichtig schön", "schön\nrichtig schön"),
    (UnicodeReformatter(), "a &lt; b", "a < b"),
    (UnicodeReformatter(), "1 &lt; 2\n<p>\n1 &lt; 2", "1 < 2\n<p>\n1 &lt; 2"),
    (UnicodeReformatter(), "bell\x07 \x1b[31mred\x1b[0m", "bell red"),
    (UnicodeReformatter(uncurl_quotes=True), "“so”", '"so"'),
    (UnicodeReformatter(fix_line_breaks=True), "a\r\nb", "a\nb"),
    (UnicodeReformatter(normalization="NFKC"), "ﬁ", "fi"),
    (UnicodeReformatter(unescape_html=False), "a &lt; b", "a &lt; b"),
    (UnicodeReformatter(max_decode_length=3), "&lt;&gt;", "&lt;&gt;"),
]


@pytest.mark.parametrize(("modifier", "text", "expected"), CASES, ids=lambda value: getattr(value, "name", None))
def test_a_modifier_returns_the_expected_text(modifier: TextModifier, text: str, expected: str) -> None:
    assert modifier.modify_document(text) == expected
    batch = make_batch([text, None, "plain"])
    stage = Modify(modifier)
    assert stage.process(batch).to_pyarrow()["text"].to_pylist() == [expected, None, modifier.modify_document("plain")]
    assert_stage_contract(stage, batch)


MODIFIERS = {f"{modifier.name} {number}": modifier for number, (modifier, _, _) in enumerate(CASES)}
# Pieces that mean something to some modifier, so that chance finds combinations of them.
PIECES = ["\n", "\r\n", " ", "\u3000", "\x1f", "\x85", "*", "**", "_", "[", "](", ")", '"', "www.", "http://", "HTTPſ://",
          "a", "Ã¶", "Â ", "â€™", "вЂ", "œ", "é", "&amp;", "&", "<", "\x07", "\ufeff", "We use cookies", "lorem ipsum",
          "İ", "K", "Share", "a.c", "b", "漢"]  # fmt: skip


@pytest.mark.parametrize("name", MODIFIERS)
@settings(max_examples=40)
@given(texts=st.lists(st.none() | st.lists(st.sampled_from(PIECES)).map("".join), max_size=4))
def test_modifying_a_column_equals_modifying_each_document(name: str, texts: list[str | None]) -> None:
    modifier = MODIFIERS[name]
    expected = [None if text is None else modifier.modify_document(text) for text in texts]
    assert modifier.modify_texts(pa.array(texts, pa.large_string())).to_pylist() == expected


def test_a_string_in_place_of_a_list_of_lines_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Write LineRemover\(\['Share'\]\)"):
        LineRemover("Share")
