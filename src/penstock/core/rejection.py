"""A record that could not be processed: set aside with the reason, never lost without a word."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MAX_EXCERPT = 2000


@dataclass(frozen=True)
class Rejection:
    """One line of the dead-letter file."""

    stage: str
    reason: str
    source: str = ""
    # Which line or row of the source, counted from 1 (of what a stage failed on: which document of its source task, as
    # the reader numbered them, from 0); None where it is not known.
    position: int | None = None
    excerpt: str = ""
    task_id: str = ""
    # True where a stage failed on it, False where it was never a good record; and what to type to see it fail.
    failed: bool = False
    reproduce: str = ""
    # The byte of the source, decompressed, at which it begins.
    byte: int | None = None
    # What is the same for all rows that failed alike: the type of the exception and the line of code, or how the worker
    # ended.
    cause: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return asdict(self)
