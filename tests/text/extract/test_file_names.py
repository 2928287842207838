"""Names of downloaded files."""

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text import ArxivDownloader, CommonCrawlWARCDownloader, DocumentDownloader, WikipediaDownloader
from penstock.text.download import common_crawl, wikipedia
from penstock.text.download.file_names import file_name_of

CRAWL = "https://data.commoncrawl.org/crawl-data"
SEGMENT = "CC-MAIN-2024-10/segments/1707947473347.0"


@pytest.mark.parametrize(
    ("downloader", "url", "name"),
    [
        (CommonCrawlWARCDownloader, f"{CRAWL}/{SEGMENT}/warc/CC-MAIN-20240220211055-00000.warc.gz",
         "crawl-data-CC-MAIN-2024-10-segments-1707947473347.0-warc-CC-MAIN-20240220211055-00000.warc.gz"),
        (CommonCrawlWARCDownloader, f"{CRAWL}/CC-NEWS/2024/03/CC-NEWS-20240301012345-00001.warc.gz",
         "crawl-data-CC-NEWS-2024-03-CC-NEWS-20240301012345-00001.warc.gz"),
        (WikipediaDownloader,
         "https://dumps.wikimedia.org/enwiki/20240101/enwiki-20240101-pages-articles-multistream1.xml-p1p41242.bz2#sha1=0a",
         "enwiki-20240101-enwiki-20240101-pages-articles-multistream1.xml-p1p41242.bz2"),
        (ArxivDownloader, "s3://arxiv/src/arXiv_src_2401_001.tar", "arXiv_src_2401_001.tar"),
    ],
)  # fmt: skip
def test_files_of_the_known_sources_keep_their_names(downloader: type[DocumentDownloader], url: str, name: str) -> None:
    """A folder that an earlier version filled is recognised."""
    named = downloader("downloads")._get_output_filename
    assert named(url) == name
    assert named(url.replace("//", "//mirror.", 1)) == name
    assert named(f"{url.partition('#')[0]}?x=1") != name
    assert named(url.replace("/", "-").replace("--", "//x/", 1)) != name


@pytest.mark.parametrize("module", [common_crawl, wikipedia])
@given(data=st.data())
def test_plain_names_of_the_known_sources_are_unique(module: object, data: st.DataObject) -> None:
    layout = module._LAYOUT  # type: ignore[attr-defined]
    one, other = (f"https://x.org{data.draw(st.from_regex(layout, fullmatch=True))}" for _ in range(2))
    assert file_name_of(one, layout) == one.removeprefix("https://x.org/").replace("/", "-")  # without a hash
    assert (file_name_of(one, layout) == file_name_of(other, layout)) == (one == other)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://x.org/a/dump.jsonl.gz?token=secret", "a-dump-#.jsonl.gz"),
        ("https://user:secret@x.org/v1.2/data.tar#sha1=00", "v1.2-data-#.tar"),
        ("https://x.org/", "file-#"),
        ("https://x.org/../../.bashrc", "bashrc-#"),
        ("https://x.org/a b\\c\n\x1b[31m;rm.txt", "a_b_c"),
        ("s3://bucket/" + "long/" * 200 + "name.jsonl.zst", "long-long-"),
        ("https://x.org/" + "é" * 300 + ".gz", "éé"),
        ("https://x.org/a." + "z" * 300, "a.zzz"),
        ("https://x.org/a." + "z" * 300 + ".gz", "a.zzz"),
    ],
)
def test_names_are_readable_and_safe(url: str, shown: str) -> None:
    name = file_name_of(url)
    assert "secret" not in name
    assert re.fullmatch(r"[\w%][\w.%+=@,~-]*", name)
    assert len(name.encode()) <= 200
    without = re.sub("[0-9a-f]{16}", "#", name)
    assert without == shown if "#" in shown else without.startswith(shown)
    assert name.endswith((".gz", ".tar", ".zst", ".txt")) == url.partition("?")[0].partition("#")[0].endswith(
        (".gz", ".tar", ".zst", ".txt")
    )


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_two_urls_never_share_a_file_name(one: str, other: str) -> None:
    urls = [f"https://x.org/{part.partition('#')[0]}" for part in (one, other)]
    assert (file_name_of(urls[0]) == file_name_of(urls[1])) == (urls[0] == urls[1])
    assert file_name_of(quote(urls[0])) == file_name_of(quote(urls[0]))
