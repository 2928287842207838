"""Wikipedia: list and download the files of a finished dump, and make one document per article."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urljoin

from penstock.errors import InputError
from penstock.text.download.download_extract import DocumentDownloadExtractStage
from penstock.text.download.downloader import DocumentDownloader
from penstock.text.download.file_names import file_name_of
from penstock.text.download.http import get_bytes
from penstock.text.download.urls import URLGenerator
from penstock.text.extract.wiki_markup import WikipediaExtractor
from penstock.text.extract.wikipedia import WikipediaIterator

_DUMP = re.compile(r'href="(\d{8})/?"')
# The layout of the dumps. The first two parts have no dash in them, so that a name with dashes can be read back.
_LAYOUT = re.compile(r"/([a-z][a-z0-9_]*wiki)/(\d{8})/\1-\2-[A-Za-z0-9][\w.-]*", re.ASCII)
_JOB = "articlesmultistreamdump"


class WikipediaUrlGenerator(URLGenerator):
    """List the files of one dump, with their checksums; without ``dump_date``, of the latest finished dump.

    Listing needs a network. The checksum is appended to the URL (``#sha1=…``) and is verified after the download.

    >>> generator = WikipediaUrlGenerator("de", dump_date="20240301")
    >>> generator.language, generator.dump_date
    ('de', '20240301')
    >>> generator.generate_urls()[0].rpartition("/")[2]  # doctest: +SKIP
    'dewiki-20240301-pages-articles-multistream1.xml-p1p297012.bz2#sha1=…'
    """

    def __init__(
        self,
        language: str = "en",
        dump_date: str | None = None,
        wikidumps_index_prefix: str = "https://dumps.wikimedia.org",
    ) -> None:
        self.language = language
        self.dump_date = dump_date
        self.wikidumps_index_prefix = wikidumps_index_prefix

    def generate_urls(self) -> list[str]:
        """Return the URLs of the dump's files."""
        index = urljoin(f"{self.wikidumps_index_prefix}/", f"{self.language}wiki/")
        if self.dump_date is not None:
            dump, job = self._job(index, self.dump_date.strip("/"))
            if job.get("status") != "done":
                raise InputError(
                    f"{dump}: this dump is not finished ({job.get('status', 'unknown')}). Name an older one."
                )
            return _files(dump, job)
        dates = sorted(set(_DUMP.findall(get_bytes(index).decode("utf-8", "replace"))), reverse=True)
        for date in dates:
            try:
                dump, job = self._job(index, date)
            except InputError:
                continue  # just begun, without a status yet, or too old to have one
            if job.get("status") == "done":
                return _files(dump, job)
        raise InputError(f"{index}: none of its {len(dates)} dumps is finished.")

    def _job(self, index: str, date: str) -> tuple[str, dict[str, Any]]:
        dump = urljoin(index, f"{date}/")
        status_url = urljoin(dump, "dumpstatus.json")
        try:
            job: dict[str, Any] = json.loads(get_bytes(status_url))["jobs"][_JOB]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{status_url}: expected the status of a dump as JSON: {error!r}") from error
        return dump, job


def _files(dump: str, job: dict[str, Any]) -> list[str]:
    urls = []
    for name, about in job.get("files", {}).items():
        if "xml" in name:
            checksum = f"#sha1={about['sha1']}" if about.get("sha1") else ""
            urls.append(urljoin(dump, name) + checksum)
    return urls


class WikipediaDownloader(DocumentDownloader):
    """Download the files of a dump, two at a time per machine, as Wikimedia asks.

    A file that is in ``download_dir`` already is not downloaded again.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "dewiki-20240301-dewiki-20240301-a.xml.bz2").write_bytes(b"downloaded before")
    ...     url = "https://dumps.wikimedia.org/dewiki/20240301/dewiki-20240301-a.xml.bz2"
    ...     path = WikipediaDownloader(folder).download(url)
    >>> path.rpartition("/")[2]
    'dewiki-20240301-dewiki-20240301-a.xml.bz2'
    """

    def _get_output_filename(self, url: str) -> str:
        return file_name_of(url, _LAYOUT)

    def num_workers_per_node(self) -> int:
        """Return the number of concurrent downloads per machine."""
        return 2


class WikipediaDownloadExtractStage(DocumentDownloadExtractStage):
    """Download a dump of one language and make one document per article.

    A document has ``text``, ``title``, ``id``, ``url``, ``language``, ``source_id`` and the file name.

    >>> stage = WikipediaDownloadExtractStage("de", "downloads/", url_limit=1)
    >>> stage.name, len(stage.decompose())
    ('wikipedia_de_pipeline', 3)
    """

    def __init__(
        self,
        language: str = "en",
        download_dir: str = "./wikipedia_downloads",
        dump_date: str | None = None,
        wikidumps_index_prefix: str = "https://dumps.wikimedia.org",
        verbose: bool = False,
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        log_frequency: int = 1000,
    ) -> None:
        super().__init__(
            WikipediaUrlGenerator(language, dump_date, wikidumps_index_prefix),
            WikipediaDownloader(download_dir, verbose),
            WikipediaIterator(language, log_frequency),
            WikipediaExtractor(language),
            url_limit,
            record_limit,
            add_filename_column,
        )
        self.name = f"wikipedia_{language}_pipeline"
