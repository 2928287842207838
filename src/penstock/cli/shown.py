"""Paths and texts as a terminal shows them: no longer than they have to be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def shown_paths(paths: Sequence[str]) -> str:
    """Return paths as they could be typed here."""
    here = f"{Path.cwd()}/"
    return ", ".join(path.removeprefix(here) for path in paths) or "no file"


def shared_folder(paths: Sequence[str]) -> str:
    """Return the beginning that all paths share, up to a slash.

    >>> shared_folder(["s3://crawl/en/a.jsonl", "s3://crawl/en/b.jsonl", "s3://crawl/de/a.jsonl"])
    's3://crawl/'
    """
    shared = paths[0] if paths else ""
    while shared and not (shared.endswith("/") and all(path.startswith(shared) for path in paths)):
        shared = shared[:-1].rpartition("/")[0] + "/" if "/" in shared[:-1] else ""
    return shared


def shortened(text: str, chars: int) -> str:
    """Return the beginning of a text, on one line.

    >>> shortened("The mill  at the river.", 12)
    'The mill at …'
    """
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else f"{flat[:chars]}…"
