"""Measure reading archives and extracting text on one core: python benchmarks/extract.py FILE.warc.gz [PAGES].

Real pages are needed. Debian's -doc packages are one source: unpack a few, and write their HTML files into a WARC file
(warcio's WARCWriter). The figures in docs/how-to/extract.md are from python3.11-doc, postgresql-doc-15 and
LibreOffice's help in German, French, Japanese and Russian. It measures CPU time, so the load of the machine has little
effect.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

from penstock.text import CommonCrawlHTMLExtractor, CommonCrawlWarcIterator
from penstock.text.extract.guard import Guard

AT_A_TIME = 64


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def main(archive: str, most: str = "1000") -> None:
    begin = cpu_s()
    found = [one for one in CommonCrawlWarcIterator().iterate(archive) if isinstance(one, dict)]
    seconds = cpu_s() - begin
    size = sum(len(one["content"]) for one in found)
    print(f"reading: {len(found):,} pages, {size / 1e6:,.0f} MB of HTML, {size / 1e6 / seconds:,.0f} MB/s")
    pages: list[dict[str, Any]] = found[:: max(1, len(found) // int(most))]
    for name in ("resiliparse", "justext", "trafilatura"):
        extractor = CommonCrawlHTMLExtractor(name)
        begin = cpu_s()
        with_text = sum(isinstance(extractor.extract(page), dict) for page in pages)
        alone = cpu_s() - begin
        guard = Guard(extractor, 30.0)
        guard.extract_all(pages[:1])
        guard.close()
        begin = cpu_s()
        for first in range(0, len(pages), AT_A_TIME):
            guard.extract_all(pages[first : first + AT_A_TIME])
        guard.close()
        guarded = cpu_s() - begin
        print(
            f"{name}: {len(pages) / alone:,.0f} pages/s, {with_text:,} of {len(pages):,} have text; "
            f"in a process of its own, start included: {len(pages) / guarded:,.0f} pages/s"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
