"""From stored HTTP responses to decoded pages."""

import gzip
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from warc_files import page, record, response, write_warc

from penstock.text.extract.charset import decode_page
from penstock.text.extract.http_message import MAX_BODY_BYTES, parse_response
from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.pages import CommonCrawlWarcIterator

HTML = page("hello").encode()


def compressed(codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(HTML)
    return bytes(sink.getvalue().to_pybytes())


CHUNKED = b"%x\r\n%s\r\n%x;name=value\r\n%s\r\n0\r\n\r\n" % (10, HTML[:10], len(HTML) - 10, HTML[10:])
BODIES = {
    "as it is": (HTML, {}),
    "chunked": (CHUNKED, {"Transfer_Encoding": "chunked"}),
    "gzip": (gzip.compress(HTML), {"Content_Encoding": "gzip"}),
    "deflate": (zlib.compress(HTML), {"Content_Encoding": "deflate"}),
    "bare deflate": (zlib.compress(HTML)[2:-4], {"Content_Encoding": "deflate"}),
    "br": (compressed("brotli"), {"Content_Encoding": "br"}),
    "zstd": (compressed("zstd"), {"Content_Encoding": "zstd"}),
    # The crawler undid the coding and left the header.
    "not gzip after all": (HTML, {"Content_Encoding": "gzip"}),
    "not br after all": (HTML, {"Content_Encoding": "br"}),
    "not chunked after all": (HTML, {"Transfer_Encoding": "chunked"}),
}


@pytest.mark.parametrize("coding", BODIES)
def test_a_body_is_decoded_as_a_browser_would(coding: str) -> None:
    body, header = BODIES[coding]
    message = parse_response(response(body, **header))
    assert message.body == HTML
    assert message.is_html
    assert message.status == 200


@pytest.mark.parametrize(
    ("body", "coding", "reason"),
    [
        (gzip.compress(b"\0" * (MAX_BODY_BYTES + 1)), "gzip", "decompresses to more than"),
        (b"\x1f\x8b\x08garbage, not gzip at all", "gzip", "does not decompress"),
        (b"garbage", "zstd", "does not decompress"),
    ],
    ids=["bomb", "gzip", "zstd"],
)
def test_the_error_for_an_unreadable_body_says_why(body: bytes, coding: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_response(response(body, Content_Encoding=coding))


@pytest.mark.parametrize(
    ("text", "encoding", "content_type", "head"),
    [
        ("Käse und Brötchen", "utf-8", "", ""),
        ("Käse und Brötchen", "latin-1", "text/html; charset=ISO-8859-1", ""),
        ("“Quoted” – as Windows does", "cp1252", "text/html; charset=iso-8859-1", ""),
        ("Привет, мир! Как у вас дела сегодня?", "cp1251", "", "<meta charset='windows-1251'>"),
        ("Привет, мир! Как у вас дела сегодня?", "koi8-r", 'text/html; charset="KOI8-R"', ""),
        (
            "これは日本語の文章です。",
            "euc-jp",
            "",
            '<meta http-equiv="Content-Type" content="text/html; charset=EUC-JP">',
        ),
        ("これは日本語の文章です。", "shift_jis", "text/html;charset=Shift_JIS", ""),
        ("これは日本語の文章です。", "iso-2022-jp", "text/html; charset=iso-2022-jp", ""),
        ("这是一个中文页面。", "gb18030", "text/html; charset=gb2312", ""),
        ("이것은 한국어 문장입니다.", "cp949", "text/html; charset=euc-kr", ""),
        ("Ένα κείμενο", "utf-16", "", ""),
        ("Ένα κείμενο", "utf-16-le", "text/html; charset=utf-16le", ""),
        # The server is wrong, and the bytes say so.
        ("Käse und Brötchen", "utf-8", "text/html; charset=iso-8859-1", ""),
        # Nobody says anything.
        ("Привет, мир! Это длинная страница на русском языке, в которой много слов.", "cp1251", "", ""),
        ("Es begann an einem Montag, und später hörte es auf.", "latin-1", "", "<meta charset=no-such-charset>"),
    ],
)
def test_pages_in_any_encoding_are_read(text: str, encoding: str, content_type: str, head: str) -> None:
    html = page(text, head=head)
    assert decode_page(html.encode(encoding), content_type) == html


def test_a_few_broken_bytes_do_not_cost_the_page_and_noise_does() -> None:
    html = page("word " * 200).encode("shift_jis") + b"\x81"
    assert (decode_page(html, "text/html; charset=shift_jis") or "").count("\ufffd") == 1
    assert decode_page(bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D]) * 100, "text/html; charset=utf-8") is None


def test_records_that_are_not_pages_are_counted_by_kind(tmp_path: Path) -> None:
    archive = write_warc(
        tmp_path / "mixed.warc.gz",
        [
            record(b"software: x\r\n", "warcinfo"),
            record(b"GET / HTTP/1.1\r\n\r\n", "request"),
            record(response(HTML), url="http://example.org/page"),
            record(response(b"\x89PNG", "image/png")),
            record(response("gone", status="404 Not Found")),
            record(response(HTML, content_type=""), url="http://example.org/untold"),
            record(response("{}", content_type="")),
            record(b"example.org. 300 IN A 127.0.0.1", Content_Type="text/dns"),
            record(b"no http", url="http://example.org/broken"),
            record(response(b"\x1f\x8b\x08 broken", Content_Encoding="gzip")),
        ],
    )
    found = list(CommonCrawlWarcIterator().iterate(str(archive)))
    assert [one["url"] for one in found if isinstance(one, dict)] == [
        "http://example.org/page",
        "http://example.org/untold",
    ]
    assert [one.reason for one in found if isinstance(one, Skipped)] == [
        "not a page: image/png",
        "HTTP status 404",
        "not a page: no content type",
        "not an HTTP response: text/dns",
    ]
    damaged = [one for one in found if isinstance(one, Damaged)]
    assert [one.excerpt for one in damaged] == ["http://example.org/broken", "http://example.org/"]
    first = next(one for one in found if isinstance(one, dict))
    assert first["content"] == HTML
    assert first["source_id"] == "mixed.warc.gz"
    assert set(CommonCrawlWarcIterator().output_columns()) == set(first)
