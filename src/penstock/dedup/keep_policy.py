"""Policy for which of several duplicates is kept: first, longest, best by a column, or from the most trusted source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.documents import DocumentBatch
from penstock.core.files import PLACE_BITS
from penstock.errors import MissingColumnError
from penstock.text.text_column import text_column

Ranks = npt.NDArray[np.float64]


@dataclass(frozen=True)
class KeepPolicy:
    """Rank documents: of duplicates the one with the lowest rank is kept, and of equal ranks the first."""

    rule: str = "first"
    # A column for "best", parts of file names for "source".
    column: str = ""
    sources: tuple[str, ...] = ()

    def ranks(self, batch: DocumentBatch, texts: pa.ChunkedArray) -> Ranks:
        """Return the rank of every document."""
        if self.rule == "longest":
            lengths: Ranks = pc.binary_length(texts).to_numpy().astype(np.float64)
            return -lengths
        if self.rule == "best":
            if self.column not in batch.get_columns():
                raise MissingColumnError("keep", self.column, batch.get_columns(), "keep")
            column = batch.column(self.column)
            if batch.holds_json(self.column):
                column = pa.chunked_array([text_column(batch, self.column)])
            values = pc.fill_null(column.cast(pa.float64()), float("-inf")).to_numpy()
            # Documents without a number rank last.
            return np.where(np.isnan(values), np.inf, -values)
        if self.rule == "source":
            assert batch.source_rows is not None
            by_file: Ranks = np.array([self._trust(path) for path in batch._metadata["source_files"]], dtype=np.float64)
            ranks: Ranks = by_file[batch.source_rows >> PLACE_BITS]
            return ranks
        return np.zeros(batch.num_items)

    def _trust(self, path: str) -> int:
        return next((i for i, part in enumerate(self.sources) if part in path), len(self.sources))


def parse_keep(keep: str | Sequence[str]) -> KeepPolicy:
    """Parse a policy from the ``keep`` parameter.

    >>> parse_keep("best:quality"), parse_keep(["wiki/", "books/"]).sources
    (KeepPolicy(rule='best', column='quality', sources=()), ('wiki/', 'books/'))
    """
    if not isinstance(keep, str):
        return KeepPolicy("source", sources=tuple(keep))
    if keep in ("first", "longest"):
        return KeepPolicy(keep)
    rule, _, column = keep.partition(":")
    if rule == "best" and column:
        return KeepPolicy("best", column)
    raise ValueError(
        f"keep={keep!r}: it is 'first', 'longest', 'best:COLUMN' (the highest value is kept), or a list of parts of "
        "file names, the most trusted source first."
    )
