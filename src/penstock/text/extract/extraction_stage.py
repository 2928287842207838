"""Extract the text of HTML pages in one column into another column."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.verdicts import Verdicts
from penstock.text.extract.guard import Guard
from penstock.text.extract.html_algorithms import HTMLExtractorAlgorithm
from penstock.text.extract.html_extractor import CommonCrawlHTMLExtractor
from penstock.text.extract.outcome import Damaged, Skipped


class HTMLExtractionStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Extract the text of the pages in ``html_field`` (text or bytes) into ``text_field``, and drop the pages.

    Reads ``html_field``, and ``content_type`` if there is such a column; writes ``text_field`` and ``language_field``.
    Documents without text are dropped and counted by reason. Pages on which the algorithm fails, or takes more than 30
    seconds of CPU time, go to the dead-letter file. ``keep_html=True`` keeps the pages. Needs ``penstock[extract]``.

    >>> from penstock.testing import make_batch, run_stage
    >>> page = "<p>This is what we have seen of it, and it is all that there was to see for them.</p>"
    >>> [extracted] = run_stage(HTMLExtractionStage(), make_batch([page, "<p></p>"], text_field="html"))
    >>> extracted.to_pyarrow().select(["language", "text"]).to_pylist()
    [{'language': 'ENGLISH', 'text': 'This is what we have seen of it, and it is all that there was to see for them.'}]
    """

    name = "html_extraction"

    def __init__(
        self,
        html_extraction: HTMLExtractorAlgorithm | str = "resiliparse",
        html_extraction_kwargs: dict[str, Any] | None = None,
        stop_lists: dict[str, frozenset[str]] | None = None,
        html_field: str = "html",
        text_field: str = "text",
        language_field: str = "language",
        keep_html: bool = False,
    ) -> None:
        self.html_field, self.text_field, self.language_field = html_field, text_field, language_field
        self.keep_html = keep_html
        self._extractor = _PageExtractor(html_extraction, html_extraction_kwargs, stop_lists)
        self._guard: Guard | None = None

    def inputs(self) -> Spec:
        """Return the column of pages."""
        return ["data"], [self.html_field]

    def outputs(self) -> Spec:
        """Return the columns of text and language."""
        return ["data"], [self.text_field, self.language_field]

    def setup(self, worker_metadata: Any = None) -> None:  # noqa: ANN401
        """Prepare the process in which the algorithm runs."""
        self._guard = Guard(self._extractor, self._extractor.cpu_limit_s)

    def teardown(self) -> None:
        """End that process."""
        if self._guard is not None:
            self._guard.close()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the documents that have text."""
        assert self._guard is not None, "setup() comes first"
        kept, languages, texts = [], [], []
        types = task.column("content_type") if "content_type" in task.get_columns() else None
        row = 0
        for chunk in _slices(task.column(self.html_field)):
            hints = types.slice(row, len(chunk)).to_pylist() if types is not None else [""] * len(chunk)
            records = [
                {"content": page, "content_type": hint or ""}
                for page, hint in zip(chunk.to_pylist(), hints, strict=True)
            ]
            for outcome in self._guard.extract_all(records):
                if isinstance(outcome, dict):
                    kept.append(row)
                    languages.append(outcome["language"])
                    texts.append(outcome["text"])
                elif isinstance(outcome, Skipped):
                    self._log_metric(f"skipped: {outcome.reason}", 1)
                elif isinstance(outcome, Damaged):
                    self.reject(outcome.reason, source=_source(task), position=row, excerpt=task.excerpt(row))
                row += 1
        added = {
            self.text_field: pa.array(texts, pa.large_string()),
            self.language_field: pa.array(languages, pa.large_string()),
        }
        made = task.select(kept).with_columns(added)
        if not self.keep_html and self.html_field not in added:
            rows = made.source_rows
            made.data = made.to_pyarrow().drop_columns([self.html_field])
            made.source_rows = rows
        self._record(task, kept)
        return made

    def _record(self, task: DocumentBatch, kept: list[int]) -> None:
        if task.source_rows is not None:
            stays = np.zeros(task.num_items, dtype=np.bool_)
            stays[kept] = True
            self.record(Verdicts(self.name, task.source_rows, stays))


class _PageExtractor(CommonCrawlHTMLExtractor):
    """Return language and text of a page, without the fields that say where it is from."""

    cpu_limit_s: ClassVar[float] = 30.0

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | Damaged:
        """Return language and text."""
        return self.extract_page(record["content"], record["content_type"])


def _slices(column: pa.ChunkedArray, size: int = 64) -> list[pa.ChunkedArray]:
    return [column.slice(begin, size) for begin in range(0, len(column), size)]


def _source(task: DocumentBatch) -> str:
    return ", ".join(task._metadata.get("source_files", [])[:3])
