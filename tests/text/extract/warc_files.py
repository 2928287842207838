"""Write small WARC files as crawlers do."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock import DocumentBatch
from penstock.core.task import Task

ENGLISH = (
    "The river had been rising for two days when the mayor asked all of the people who lived near it to leave "
    "their houses and to go up to the school on the hill, where there was food for everyone and a place to sleep."
)


def page(*paragraphs: str, lang: str = "en", head: str = "") -> str:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return (
        f"<!doctype html><html lang={lang}><head><title>A page</title>{head}</head><body>"
        f"<nav><a href=/>Home</a> <a href=/about>About</a></nav><main><article>{body}</article></main>"
        "<footer>All of it is free</footer></body></html>"
    )


def record(block: bytes, kind: str = "response", url: str = "http://example.org/", **header: str) -> bytes:
    stored_as = {"response": "application/http; msgtype=response", "conversion": "text/plain"}.get(kind, "text/html")
    lines = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": "2024-03-01T12:00:00Z",
        "WARC-Record-ID": f"<urn:uuid:{zlib.crc32(url.encode()):032x}>",
        "Content-Type": stored_as,
        "Content-Length": str(len(block)),
        **{name.replace("_", "-"): value for name, value in header.items()},
    }
    head = "WARC/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return head.encode() + b"\r\n" + block + b"\r\n\r\n"


def response(
    body: bytes | str, content_type: str = "text/html; charset=utf-8", status: str = "200 OK", **header: str
) -> bytes:
    lines = {"Content-Type": content_type, **{name.replace("_", "-"): value for name, value in header.items()}}
    head = f"HTTP/1.1 {status}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return head.encode() + b"\r\n" + (body.encode() if isinstance(body, str) else body)


def write_warc(path: Path, records: Sequence[bytes]) -> Path:
    """Write records as crawlers do: each compressed by itself."""
    path.write_bytes(b"".join(gzip.compress(one, mtime=0) for one in records))
    return path


def table(task: Task[Any]) -> pa.Table:
    assert isinstance(task, DocumentBatch)
    return task.to_pyarrow()
