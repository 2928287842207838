"""Paths as users write them: whether one contains the other, and how to show one that is not valid UTF-8."""

from __future__ import annotations

import re


def shown(path: str) -> str:
    """Return a path as text; bytes that are not UTF-8, which file systems allow, become replacement characters.

    >>> shown(b"caf\\xe9.jsonl".decode("utf-8", "surrogateescape"))
    'caf�.jsonl'
    """
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def one_holds_the_other(one: str, other: str) -> bool:
    """Tell whether one of two paths contains the other.

    >>> one_holds_the_other("crawl/*.jsonl", "crawl/clean"), one_holds_the_other("crawl", "crawl-2")
    (True, False)
    """
    these, those = _folder(one), _folder(other)
    shared = min(len(these), len(those))
    return these[:shared] == those[:shared]


def _folder(path: str) -> tuple[str, ...]:
    """Return the parts of a path up to the first wildcard, with ``.`` and ``..`` resolved."""
    parts: list[str] = []
    for part in re.split(r"[*?\[]", path)[0].split("/")[: None if not re.search(r"[*?\[]", path) else -1]:
        if part == ".." and parts and parts[-1] not in ("", ".."):
            parts.pop()
        elif part not in ("", ".") or not parts:
            parts.append(part)
    return tuple(part for part in parts if part != ".")
