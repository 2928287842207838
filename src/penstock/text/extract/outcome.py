"""What an iterator or an extractor may give instead of a record: why there is none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Skipped:
    """A record that is nothing to curate (an image, an empty page): counted under its reason."""

    reason: str


@dataclass(frozen=True)
class Damaged:
    """A record that should have been there and could not be had: goes to the dead-letter file."""

    reason: str
    position: int | None = None
    excerpt: str = ""
