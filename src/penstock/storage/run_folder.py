"""The folder of a run: its summary, and the records it set aside (dead letters)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from penstock.core.rejection import Rejection
from penstock.errors import OutputError
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of

# Readers skip names that begin with an underscore, so this folder can be inside the output.
FOLDER_NAME = "_penstock"
# Name of the lock file in it (see ``run_lock``).
LOCK = "lock"


class RunFolder:
    """The folder for files about a run. Files and folders are created when something is written."""

    def __init__(self, path: str, storage_options: dict[str, Any] | None = None) -> None:
        self.path = path
        self.storage_options = storage_options
        self.dead_letters = f"{path}/dead_letters.jsonl"
        self.summary = f"{path}/summary.json"
        self.num_dead_letters = 0
        self._dead_letter_stream: IO[bytes] | None = None

    @property
    def cleared(self) -> list[str]:
        """Paths that are removed when a run begins: files, and the folder of the ledger."""
        return [self.dead_letters, self.summary, f"{self.path}/ledger"]

    def clear(self) -> None:
        """Remove the files of an earlier run, so that they are not mistaken for those of this run."""
        for path in (self.dead_letters, self.summary):
            filesystem, name = filesystem_of(path, self.storage_options)
            if filesystem.exists(name):
                filesystem.rm(name)

    def add_dead_letters(self, rejections: Sequence[Rejection]) -> None:
        """Append records to the dead-letter file, one JSON object per line, without buffering them in memory."""
        if not rejections:
            return
        try:
            if self._dead_letter_stream is None:
                filesystem, name = filesystem_of(self.dead_letters, self.storage_options)
                filesystem.makedirs(filesystem._parent(name), exist_ok=True)
                self._dead_letter_stream = filesystem.open(name, "wb")
            for rejection in rejections:
                line = json.dumps(rejection.to_dict(), ensure_ascii=False)
                self._dead_letter_stream.write(line.encode("utf-8", "replace") + b"\n")
            self._dead_letter_stream.flush()
        except OSError as error:
            raise OutputError(f"{self.dead_letters}: rejected records cannot be written: {error}") from error
        self.num_dead_letters += len(rejections)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write the totals."""
        with atomic_write(self.summary, self.storage_options) as stream:
            stream.write(json.dumps(summary, indent=2).encode() + b"\n")

    def close(self) -> None:
        """Close the dead-letter file."""
        if self._dead_letter_stream is not None:
            self._dead_letter_stream.close()
            self._dead_letter_stream = None


def beside_output(output: str | None, pipeline: str, storage_options: dict[str, Any] | None = None) -> RunFolder:
    """Choose the folder of a run: inside its output, or under the current folder if it writes none."""
    if output is not None:
        return RunFolder(f"{output.rstrip('/')}/{FOLDER_NAME}", storage_options)
    return RunFolder(str(Path("penstock-runs") / pipeline))
