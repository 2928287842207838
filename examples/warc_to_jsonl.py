"""Convert WARC files to filtered JSONL: python examples/warc_to_jsonl.py FOLDER [FILE.warc.gz …].

Without files it makes a small archive in FOLDER: two articles, a menu, a picture and a truncated page.
"""

import gzip
import sys
import zlib
from pathlib import Path

from penstock import Pipeline
from penstock.text import HTMLExtractionStage, JsonlWriter, ScoreFilter, WarcReader, WordCountFilter

ARTICLES = {
    "flood": "The river had been rising for two days when the mayor asked all of the people who lived near it to leave "
    "their houses and to go up to the school on the hill, where there was food for everyone and a place to sleep.",
    "bakery": "There is a bakery at the end of the street which has been there for as long as anyone can remember, and "
    "in the morning you can smell the bread from the other side of the square, even when it is raining.",
}


def record(url: str, body: bytes, content_type: str) -> bytes:
    http = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode() + body
    header = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2024-03-01T12:00:00Z\r\n"
        f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{zlib.crc32(url.encode()):012d}>\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    return gzip.compress(header.encode() + http + b"\r\n\r\n")


def make_archive(path: Path) -> None:
    menu = "<nav><a href=/>Home</a> <a href=/about>About us</a></nav>"
    pages = {
        name: f"<!doctype html><html><body>{menu}<article><p>{text}</p></article></body></html>"
        for name, text in ARTICLES.items()
    }
    records = [
        *(record(f"http://example.org/{name}", html.encode(), "text/html") for name, html in pages.items()),
        record("http://example.org/menu", menu.encode(), "text/html"),
        record("http://example.org/logo.png", b"\x89PNG", "image/png"),
        record("http://example.org/cut", pages["flood"].encode(), "text/html")[:150],
    ]
    path.write_bytes(b"".join(records))


def main(folder: str, *archives: str) -> None:
    if not archives:
        Path(folder).mkdir(parents=True, exist_ok=True)
        make_archive(Path(folder) / "crawl.warc.gz")
        archives = (f"{folder}/crawl.warc.gz",)
    pipeline = Pipeline("warc to jsonl")
    pipeline.add_stage(WarcReader(list(archives)))
    pipeline.add_stage(HTMLExtractionStage("resiliparse"))
    pipeline.add_stage(ScoreFilter(WordCountFilter(min_words=20), score_field="words"))
    pipeline.add_stage(JsonlWriter(f"{folder}/clean", mode="overwrite"))
    pipeline.run()


if __name__ == "__main__":
    main(*sys.argv[1:] or ["warc-example"])
