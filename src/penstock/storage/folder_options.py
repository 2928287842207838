"""Storage options per folder: options registered for a folder apply to every path below it, in this process.

A workflow writes many files below the few folders that its user names: tables, lists, an index, intermediate files. It
registers the options of these folders once, and its stages register them in each worker (``dedup.stored_stage``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_options_by_folder: dict[str, dict[str, Any]] = {}


class FolderOptions:
    """Storage options (those of fsspec, such as credentials) for some folders."""

    def __init__(self, folders: Iterable[str], options: Mapping[str, Any] | None) -> None:
        self.folders = tuple(folders)
        self.options = dict(options or {})

    def register(self) -> None:
        """Use these options in this process from now on; without options, use the defaults of the filesystem."""
        for folder in self.folders:
            if self.options:
                _options_by_folder[folder.rstrip("/")] = self.options
            else:
                _options_by_folder.pop(folder.rstrip("/"), None)


def options_for(path: str) -> dict[str, Any]:
    """Return the options registered for the nearest folder above a path; empty if there are none.

    >>> FolderOptions(["s3://clean/out"], {"key": "k"}).register()
    >>> options_for("s3://clean/out/part/a.parquet"), options_for("s3://clean/output")
    ({'key': 'k'}, {})
    """
    if not _options_by_folder:
        return {}
    while path:
        if path in _options_by_folder:
            return _options_by_folder[path]
        path = path.rpartition("/")[0]
    return {}
