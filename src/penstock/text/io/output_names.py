"""Name output files after the input, so that files of another input are never replaced.

A name is a hash of the task's lineage, in which files are identified by their path below the input path. So moving a
data set renames nothing, but ``day1/crawl/part-0.jsonl`` and ``day2/crawl/part-0.jsonl`` have the same name. Each
output folder therefore has a record of the origins (see ``SizedFile.origin``) whose documents are in it. The first run
names its files by lineage alone; those of an origin that is added later are named by lineage and origin.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.files import origin_of
from penstock.core.task import Task
from penstock.errors import OutputError
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of
from penstock.storage.run_folder import FOLDER_NAME
from penstock.storage.same_place import resolved

RECORD = "origins.json"


@dataclass(frozen=True)
class NamesApart:
    """The suffixes that are hashed into file names, by origin, and for tasks without an origin."""

    added: dict[str, str] = field(default_factory=dict)
    otherwise: str = ""

    @classmethod
    def settle(
        cls,
        folder: str,
        extension: str,
        origins: Sequence[str],
        storage_options: dict[str, Any] | None = None,
        *,
        is_empty: bool,
        resuming: bool,
    ) -> NamesApart:
        """Decide how the files of a run are named, and record its origins.

        ``is_empty`` means that the folder has no file of an earlier run. A ``resuming`` run keeps its names. Raises an
        error if there are such files and no record of the input they were made from.
        """
        path = f"{folder.rstrip('/')}/{FOLDER_NAME}/{RECORD}"
        record = _read(path, storage_options)
        if extension not in record and not is_empty and not resuming:
            raise OutputError(
                f"{folder}: holds .{extension} files of an earlier run, but {path}, which says of which input they "
                "were made, is missing, so that this run might replace them. Choose another output folder, or "
                "mode=overwrite."
            )
        known: dict[str, str] = {} if is_empty and not resuming else dict(record.get(extension, {}))
        places = {origin: _place(origin) for origin in origins}
        for place in places.values():
            if place not in known:
                known[place] = "" if is_empty or resuming else hashlib.sha256(_bytes(place)).hexdigest()[:12]
        if record.get(extension) != known:
            with atomic_write(path, storage_options) as stream:
                stream.write(json.dumps({**record, extension: known}, indent=1).encode() + b"\n")
        added = {origin: known[place] for origin, place in places.items() if known[place]}
        return cls(added, known[places[origins[-1]]])


def name_of(task: Task[Any], apart: NamesApart) -> str:
    """Return a file name that depends only on the input and is unique within the run."""
    origin = origin_of(task)
    return _name(task.task_id, apart.otherwise if origin is None else apart.added.get(origin, ""))


def names_of(task_id: str, apart: NamesApart) -> list[str]:
    """Return the possible file names of a task, one per origin."""
    return [_name(task_id, added) for added in sorted({"", apart.otherwise, *apart.added.values()})]


def _name(task_id: str, added: str) -> str:
    return hashlib.sha256(_bytes(f"{task_id}|{added}" if added else task_id)).hexdigest()[:12]


def is_name(stem: str) -> bool:
    """Return True if a file name without extension is such a name, or a numbered part of one.

    >>> is_name("0123456789ab"), is_name("0123456789ab_12"), is_name("part-0")
    (True, True, False)
    """
    return re.fullmatch(r"[0-9a-f]{12}(_\d+)?", stem) is not None


def _place(origin: str) -> str:
    """Return the canonical path of an origin, with links resolved."""
    return resolved(origin) if origin.startswith("/") or "://" in origin else origin


def _read(path: str, storage_options: dict[str, Any] | None) -> dict[str, Any]:
    filesystem, name = filesystem_of(path, storage_options)
    try:
        record = json.loads(filesystem.cat_file(name))
        return {str(extension): dict(origins) for extension, origins in record.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise OutputError(
            f"{path}: does not say which inputs were written into {path.rpartition('/')[0]} ({error}). "
            "Choose another output folder, or remove that file and use mode=overwrite."
        ) from error


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
