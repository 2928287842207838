"""Deduplication by address: of documents that come from the same page, one stays, whatever their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.dedup.exact_workflow import ExactDeduplicationWorkflow


class UrlDeduplicationWorkflow(ExactDeduplicationWorkflow):
    """Keeps one document of each address, and all that have none.

    Addresses are compared without scheme, ``www.``, fragment and tracking parameters. ``keep`` is as for texts:
    "first", "longest" (address), "best:COLUMN" such as the date of the crawl, or parts of file names. Written:
    ``<output_path>/UrlDuplicateIds`` and ``deduplicated/``.
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
