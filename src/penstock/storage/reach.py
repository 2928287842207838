"""How places are reached: options told once for a folder hold for all that lies below it, in every process.

A workflow writes in many places below the few that its user names: tables, lists, an index, what lies there meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_known: dict[str, dict[str, Any]] = {}


class Reach:
    """Options for some folders. They are known where this was made, and wherever it travels to with a stage."""

    def __init__(self, folders: Iterable[str], options: Mapping[str, Any] | None) -> None:
        self.folders = tuple(folders)
        self.options = dict(options or {})
        for folder in self.folders:
            if self.options:
                _known[folder.rstrip("/")] = self.options
            else:
                _known.pop(folder.rstrip("/"), None)  # told otherwise before

    def __reduce__(self) -> tuple[type[Reach], tuple[tuple[str, ...], dict[str, Any]]]:
        """Make it anew on the other side."""
        return Reach, (self.folders, self.options)


def options_for(path: str) -> dict[str, Any]:
    """Return what was told for the nearest folder above a path.

    >>> _ = Reach(["s3://clean/out"], {"key": "k"})
    >>> options_for("s3://clean/out/part/a.parquet"), options_for("s3://clean/output")
    ({'key': 'k'}, {})
    """
    if not _known:
        return {}
    while path:
        if path in _known:
            return _known[path]
        path = path.rpartition("/")[0]
    return {}
