"""A record that could not be processed and is set aside with the reason."""

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
    # The line or row of the source, counted from 1. For a document that a stage failed on: its number in the source
    # task, as the reader counts them, from 0. None where it is not known.
    position: int | None = None
    excerpt: str = ""
    task_id: str = ""
    # True where a stage failed on it, False where the record was malformed; and the command that shows the failure.
    failed: bool = False
    reproduce: str = ""
    # Its offset in the decompressed source, in bytes.
    byte: int | None = None
    # The cause, by which failures are grouped: the type of the exception and the line of code, or how the worker ended.
    cause: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return asdict(self)
