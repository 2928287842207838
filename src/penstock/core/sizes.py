"""Parse and format sizes in bytes and counts of things."""

from __future__ import annotations

import math
import re

_UNITS = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9, "t": 10**12, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip


def parse_bytes(size: int | float | str) -> int:
    """Return a size in bytes from a number or from "64MB", "1.5 GiB" and the like.

    >>> parse_bytes("64MB"), parse_bytes("1.5 GiB"), parse_bytes(1024)
    (64000000, 1610612736, 1024)
    """
    if isinstance(size, int | float) and not isinstance(size, bool):
        value = float(size)
    else:
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*", str(size))
        if match is None or match[2].lower() not in _UNITS:
            raise ValueError(f"{size!r} is not a size. Write a number of bytes, or one with a unit: 64MB, 1.5GiB.")
        value = float(match[1]) * _UNITS[match[2].lower()]
    if not 1 <= value < math.inf:
        raise ValueError(f"{size!r} is not a size: it must be finite, and at least one byte.")
    return int(value)


def human_bytes(count: float) -> str:
    """Format a size with a unit.

    >>> human_bytes(999), human_bytes(59_100_000)
    ('999 B', '59.1 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is one.

    >>> plural(1, "file"), plural(1200, "input item")
    ('1 file', '1,200 input items')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
