"""Print paths, texts and records in a terminal: shortened, with control characters escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from penstock.core.printable import printable, printable_lines

# json.dumps escapes the first 32 characters itself.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u200b\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]")


def echo(text: str, *, err: bool = False) -> None:
    """Print text of one or more lines with control characters escaped."""
    click.echo(printable_lines(text), err=err)


def echo_json(record: Mapping[str, Any]) -> None:
    """Print a record as JSON on one line."""
    text = json.dumps(record, ensure_ascii=False)
    click.echo(_UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def shown_paths(paths: Sequence[str]) -> str:
    """Return paths relative to the current folder, separated by commas."""
    here = f"{Path.cwd()}/"
    return ", ".join(printable(path.removeprefix(here)) for path in paths) or "no file"


def shared_folder(paths: Sequence[str]) -> str:
    """Return the longest common prefix of all paths that ends in a slash.

    >>> shared_folder(["s3://crawl/en/a.jsonl", "s3://crawl/en/b.jsonl", "s3://crawl/de/a.jsonl"])
    's3://crawl/'
    """
    shared = paths[0] if paths else ""
    while shared and not (shared.endswith("/") and all(path.startswith(shared) for path in paths)):
        shared = shared[:-1].rpartition("/")[0] + "/" if "/" in shared[:-1] else ""
    return shared


def shortened(text: str, chars: int) -> str:
    """Return the first characters of a text, on one line.

    >>> shortened("The mill  at the river.", 12)
    'The mill at …'
    """
    flat = " ".join(text.split())
    return printable(flat) if len(flat) <= chars else f"{printable(flat[:chars])}…"
