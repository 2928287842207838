"""Common Crawl, Wikipedia and arXiv, from the list of files to documents, with a local server."""

import bz2
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from flaky_server import FlakyServer, flaky_server
from warc_files import ENGLISH, page, record, response, table

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage
from penstock.errors import InputError
from penstock.testing import run_stage, run_stage_with_rejections
from penstock.text import (
    ArxivDownloadExtractStage,
    CommonCrawlDownloadExtractStage,
    CommonCrawlHTMLExtractor,
    CommonCrawlWARCDownloader,
    CommonCrawlWarcIterator,
    CommonCrawlWARCReader,
    Damaged,
    DocumentDownloadExtractStage,
    MainCommonCrawlUrlGenerator,
    NewsCommonCrawlUrlGenerator,
    WikipediaDownloadExtractStage,
    WikipediaIterator,
    WikipediaUrlGenerator,
)


@pytest.fixture
def server() -> Iterator[FlakyServer]:
    with flaky_server() as state:
        yield state


def documents(stage: ProcessingStage[Any, Any]) -> list[dict[str, Any]]:
    pipeline = Pipeline("sources", stages=[stage])
    tasks = pipeline.run(InlineExecutor())
    return [row for task in tasks or [] for row in table(task).to_pylist()]


def paths(*names: str) -> bytes:
    return gzip.compress("\n".join(names).encode())


def test_the_main_crawl_is_listed_latest_first_and_within_its_period(server: FlakyServer) -> None:
    ids = ["CC-MAIN-2024-10", "CC-MAIN-2023-50", "CC-MAIN-2020-05", "CC-MAIN-2009-2010"]
    server.files = {
        "/collinfo.json": json.dumps([{"id": one} for one in ids]).encode(),
        "/crawl-data/CC-MAIN-2024-10/warc.paths.gz": paths("crawl-data/a.warc.gz", "crawl-data/b.warc.gz"),
        "/crawl-data/CC-MAIN-2023-50/warc.paths.gz": paths("crawl-data/c.warc.gz"),
    }
    generator = MainCommonCrawlUrlGenerator("2023-01", "2024-20", server.url, index_prefix=server.url)
    assert generator.generate_urls() == [f"{server.url}/crawl-data/{name}.warc.gz" for name in "abc"]
    limited = MainCommonCrawlUrlGenerator("2023-01", "2024-20", server.url, limit=1, index_prefix=server.url)
    assert limited.generate_urls() == [f"{server.url}/crawl-data/a.warc.gz"]
    with pytest.raises(InputError, match=r"no snapshot from 2021-01 to 2021-02; the latest is CC-MAIN-2024-10"):
        MainCommonCrawlUrlGenerator("2021-01", "2021-02", server.url, index_prefix=server.url).generate_urls()


def test_a_list_that_cannot_be_downloaded_is_an_error(server: FlakyServer) -> None:
    generator = NewsCommonCrawlUrlGenerator("2020-01", "2020-01", server.url)
    with pytest.raises(InputError, match=r"CC-NEWS/2020/01/warc\.paths\.gz: cannot be fetched: HTTP 404"):
        generator.generate_urls()


def test_the_news_crawl_is_listed_by_month() -> None:
    generator = NewsCommonCrawlUrlGenerator("2016-01", "2016-10", "https://x")
    assert generator.generate_path_urls() == [
        f"https://x/crawl-data/CC-NEWS/2016/{month}/warc.paths.gz" for month in ("10", "09", "08")
    ]


@pytest.mark.parametrize(
    ("crawl", "start", "end", "said"),
    [
        ("main", "2020", "2021-01", "expected year and week"),
        ("main", "2020-54", "2021-01", "expected year and week"),
        ("news", "2020-13", "2021-01", "expected year and month"),
        ("main", "2021-10", "2021-01", "is after"),
        ("mian", "2021-10", "2021-11", "one of main, news"),
    ],
)
def test_an_invalid_period_is_refused_at_once(crawl: str, start: str, end: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        CommonCrawlDownloadExtractStage(start, end, str(tmp_path), crawl)


def test_a_crawl_becomes_documents(server: FlakyServer, tmp_path: Path) -> None:
    archive = b"".join(
        gzip.compress(one)
        for one in (
            record(response(page(ENGLISH)), url="http://example.org/flood"),
            record(response(b"\x89PNG", "image/png")),
        )
    )
    server.files = {
        "/crawl-data/CC-NEWS/2020/01/warc.paths.gz": paths("crawl-data/CC-NEWS/2020/01/CC-NEWS-1.warc.gz"),
        "/crawl-data/CC-NEWS/2020/01/CC-NEWS-1.warc.gz": archive,
    }
    stage = DocumentDownloadExtractStage(
        NewsCommonCrawlUrlGenerator("2020-01", "2020-01", server.url),
        CommonCrawlWARCDownloader(str(tmp_path)),
        CommonCrawlWarcIterator(),
        CommonCrawlHTMLExtractor("resiliparse"),
    )
    [document] = documents(stage)
    assert document == {
        "url": "http://example.org/flood",
        "warc_id": document["warc_id"],
        "source_id": "crawl-data-CC-NEWS-2020-01-CC-NEWS-1.warc.gz",
        "language": "ENGLISH",
        "text": ENGLISH,
        "file_name": "crawl-data-CC-NEWS-2020-01-CC-NEWS-1.warc.gz",
    }


def places(server: FlakyServer) -> DocumentBatch:
    """An archive of two pages, and rows that point at both, at no page, past the end and at no file."""
    members = [gzip.compress(record(response(page(word)))) for word in ("one", "two")]
    request = gzip.compress(record(b"GET / HTTP/1.1\r\n\r\n", "request"))
    server.files["/crawl-data/x.warc.gz"] = b"".join([*members, request])
    first, second = map(len, members)
    rows = [
        ("crawl-data/x.warc.gz", 0, first),
        ("crawl-data/x.warc.gz", first, second),
        ("crawl-data/x.warc.gz", first + second, len(request)),
        ("crawl-data/x.warc.gz", 10**6, 10),
        ("crawl-data/absent.warc.gz", 0, 10),
    ]
    columns = dict(
        zip(("warc_filename", "warc_record_offset", "warc_record_length"), zip(*rows, strict=True), strict=True)
    )
    return DocumentBatch("index", pa.table({name: list(values) for name, values in columns.items()}))


def test_single_records_are_fetched_by_offset_and_length(server: FlakyServer) -> None:
    stage = CommonCrawlWARCReader(base_url=f"{server.url}/", max_workers=2)
    [made], rejections = run_stage_with_rejections(stage, places(server))
    assert table(made)["binary_content"].to_pylist() == [page("one").encode(), page("two").encode()]
    reasons = [one.reason for one in rejections]
    assert "no response at this offset" in reasons[0]
    assert "has no bytes 1000000" in reasons[1]
    assert "HTTP 404" in reasons[2]
    [kept] = run_stage(CommonCrawlWARCReader(base_url=f"{server.url}/", drop_failed=False), places(server))
    assert kept.num_items == 5


def test_when_nothing_can_be_reached_the_task_fails() -> None:
    batch = DocumentBatch(
        "index", pa.table({"warc_filename": ["a"], "warc_record_offset": [0], "warc_record_length": [1]})
    )
    with pytest.raises(InputError, match=r"no-such-host\.invalid/.*WarcReader"):
        run_stage(CommonCrawlWARCReader(base_url="http://no-such-host.invalid/", max_retries=0), batch)


def article(title: str, text: str, number: int, namespace: int = 0, redirect: str = "") -> str:
    return (
        f"<page><title>{title}</title><ns>{namespace}</ns><id>{number}</id>{redirect}"
        f"<revision><id>1</id><text xml:space='preserve'>{text}</text></revision></page>"
    )


HEAD = (
    "<mediawiki xmlns='http://www.mediawiki.org/xml/export-0.11/'><siteinfo><namespaces>"
    "<namespace key='6'>Datei</namespace><namespace key='14'>Kategorie</namespace></namespaces></siteinfo>"
)
ADA = (
    "'''Ada Lovelace''' war eine [[Mathematik|Mathematikerin]].&lt;ref&gt;Quelle&lt;/ref&gt; [[Datei:Ada.jpg|mini|Bild]]"
    "{{Infobox|x=y}}\n\n== Leben ==\nSie lebte in [[London]].\n{| class='w'\n| Zelle\n|}\n[[Kategorie:Frau]] __NOTOC__"
)


def dump() -> bytes:
    """A dump as they are made: the head, pages in streams of two, and the tail, each compressed by itself."""
    pages = [
        [article("Ada Lovelace", ADA, 1), article("Ada", "", 2, redirect="<redirect title='Ada Lovelace'/>")],
        [article("Diskussion:Ada", "Hallo", 3, namespace=1), article("Berlin", "'''Berlin''' ist eine Stadt.", 4)],
    ]
    return b"".join(bz2.compress(part.encode()) for part in (HEAD, *("\n".join(two) for two in pages), "</mediawiki>"))


def serve_wikipedia(server: FlakyServer, content: bytes) -> None:
    files = {
        "dewiki-20240201-multistream.xml.bz2": {"sha1": hashlib.sha1(content).hexdigest()},
        "dewiki-index.txt.bz2": {},
    }
    done = {"jobs": {"articlesmultistreamdump": {"status": "done", "files": files}}}
    waiting = {"jobs": {"articlesmultistreamdump": {"status": "waiting"}}}
    server.files = {
        "/dewiki/": b'<a href="20240201/">20240201/</a> <a href="20240301/">20240301/</a> <a href="latest/">latest/</a>',
        "/dewiki/20240201/dumpstatus.json": json.dumps(done).encode(),
        "/dewiki/20240301/dumpstatus.json": json.dumps(waiting).encode(),
        "/dewiki/20240201/dewiki-20240201-multistream.xml.bz2": content,
    }


def test_wikipedia_becomes_documents(server: FlakyServer, tmp_path: Path) -> None:
    serve_wikipedia(server, dump())
    found = documents(WikipediaDownloadExtractStage("de", str(tmp_path), wikidumps_index_prefix=server.url))
    assert [one["title"] for one in found] == ["Ada Lovelace", "Berlin"]
    assert found[0] == {
        "text": "Ada Lovelace war eine Mathematikerin.\n\nLeben\nSie lebte in London.\n\nFrau",
        "title": "Ada Lovelace",
        "id": "1",
        "url": "https://de.wikipedia.org/wiki/Ada%20Lovelace",
        "language": "de",
        "source_id": "dewiki-20240201-dewiki-20240201-multistream.xml.bz2",
        "file_name": "dewiki-20240201-dewiki-20240201-multistream.xml.bz2",
    }


def test_an_unfinished_dump_is_refused_and_a_damaged_file_too(server: FlakyServer, tmp_path: Path) -> None:
    serve_wikipedia(server, dump())
    with pytest.raises(InputError, match="not finished"):
        WikipediaUrlGenerator("de", "20240301", server.url).generate_urls()
    server.files["/dewiki/20240201/dewiki-20240201-multistream.xml.bz2"] = b"something else"
    with pytest.raises(InputError, match="its sha1 is"):
        documents(WikipediaDownloadExtractStage("de", str(tmp_path), "20240201", server.url))


def test_damage_in_a_dump_costs_the_pages_of_one_stream(tmp_path: Path) -> None:
    streams = [
        bz2.compress(part.encode())
        for part in (HEAD, *(article(f"Seite {n}", f"Text {n}", n) for n in range(1, 5)), "</mediawiki>")
    ]
    broken = bytearray(streams[2])
    broken[30:40] = b"\0" * 10
    path = tmp_path / "dump.xml.bz2"
    path.write_bytes(b"".join([*streams[:2], bytes(broken), *streams[3:]]))
    found = list(WikipediaIterator("de").iterate(str(path)))
    assert [one["title"] for one in found if isinstance(one, dict)] == ["Seite 1", "Seite 3", "Seite 4"]
    assert [one.position for one in found if isinstance(one, Damaged)] == [len(streams[0] + streams[1])]
    path.write_bytes(b"".join(streams[:5])[:-20])
    found = list(WikipediaIterator("de").iterate(str(path)))
    assert [one["title"] for one in found if isinstance(one, dict)] == ["Seite 1", "Seite 2", "Seite 3"]
    assert "downloaded completely" in "".join(one.reason for one in found if isinstance(one, Damaged))


def packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


PAPER = rb"""\documentclass{article} % a comment
\newcommand{\real}{\mathbb{R}}
\begin{document}
\section{Introduction}
% nobody reads this
We work in $\real$, and 50\% of it is real. % really
\appendix
Long tables.
\end{document}
"""


def test_arxiv_becomes_documents(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    papers = {
        "0001/hep-th0001001.gz": gzip.compress(packed({"main.tex": PAPER, "figure.eps": b"%!PS"})),
        "0001/0001.00002.gz": gzip.compress("\\section{Eins} Käse".encode("latin-1")),
        "0001/0001.00003.pdf": b"%PDF-1.4",
        "0001/0001.00004.gz": gzip.compress(PAPER)[:-30],
        "0001/0001.00005.gz": gzip.compress(b"no section here"),
    }
    (source / "arXiv_src_0001_001.tar").write_bytes(packed(papers))
    (source / "arXiv_src_manifest.xml").write_text("<x/>")
    stage = ArxivDownloadExtractStage(str(tmp_path / "downloads"), source=str(source))
    first, second = documents(stage)
    assert first == {
        "id": "hep-th/0001001",
        "source_id": "arXiv_src_0001_001.tar",
        "text": "\\section{Introduction}\nWe work in $\\mathbb{R}$, and 50\\% of it is real.",
        "file_name": "arXiv_src_0001_001.tar",
    }
    assert second["text"] == "\\section{Eins} Käse"
