"""What an iterator or an extractor returns in place of a record, with the reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Skipped:
    """A record that is not a document to curate (an image, an empty page). It is counted by ``reason``.

    >>> Skipped("not a page: image/png").reason
    'not a page: image/png'
    """

    reason: str


@dataclass(frozen=True)
class Damaged:
    """A record that could not be read. It goes to the dead-letter file with its position in the file.

    >>> Damaged("the file ends in the middle of it", position=4096)
    Damaged(reason='the file ends in the middle of it', position=4096, excerpt='')
    """

    reason: str
    position: int | None = None
    excerpt: str = ""
