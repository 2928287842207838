"""Workflow for deduplication by URL: of documents with the same URL, one is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.dedup.exact_workflow import ExactDeduplicationWorkflow


class UrlDeduplicationWorkflow(ExactDeduplicationWorkflow):
    """Keep one document for each URL, and all documents without a URL.

    URLs are compared without scheme, ``www.``, fragment and tracking parameters. ``keep`` is as for texts: "first",
    "longest" (URL), "best:COLUMN" such as the date of the crawl, or parts of file names.

    Writes ``<output_path>/UrlDuplicateIds`` and ``deduplicated/``.

    >>> import pathlib, tempfile
    >>> from penstock import InlineExecutor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = ['{"url": "https://example.org/a"}', '{"url": "http://www.example.org/a#top"}']
    ...     _ = pathlib.Path(folder, "in.jsonl").write_text(chr(10).join(lines))
    ...     workflow = UrlDeduplicationWorkflow(f"{folder}/out", f"{folder}/in.jsonl", "jsonl")
    ...     _ = workflow.run(InlineExecutor(show_progress=False))
    ...     kept = [path.read_text() for path in pathlib.Path(folder, "out/deduplicated").glob("*.jsonl")]
    >>> "".join(kept).splitlines()
    ['{"url": "https://example.org/a"}']
    """

    kind = "url"

    def __init__(
        self,
        output_path: str,
        input_path: str | Sequence[str] | None = None,
        input_filetype: str = "parquet",
        *,
        url_field: str = "url",
        perform_removal: bool = True,
        **settings: Any,  # noqa: ANN401 - those of exact deduplication
    ) -> None:
        super().__init__(
            output_path,
            input_path,
            input_filetype,
            text_field=url_field,
            perform_removal=perform_removal,
            **settings,
        )
