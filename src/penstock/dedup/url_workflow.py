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
