"""What is done already: an append-only file that a crash may cut anywhere and that is still right.

Reading stops at the first record that is not whole, and writing goes on from there, so a torn tail costs the work of
one source task and nothing else.
"""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from penstock.errors import CheckpointError
from penstock.storage.records import framed, read_records

FILE_NAME = "journal.penstock"


class Journal:
    """The records of one checkpoint folder. The first record says which pipeline they belong to."""

    def __init__(self, folder: str | Path, fingerprint: dict[str, Any]) -> None:
        self.path = Path(folder) / FILE_NAME
        self.done: dict[str, Any] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            whole = self._load(fingerprint)
            self.resumed = whole > 0
            self._stream: IO[bytes] = self.path.open("r+b" if self.path.exists() else "w+b")
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {folder}: cannot be opened: {error}. checkpoint_path is a folder on this machine."
            ) from error
        self._stream.truncate(whole)
        self._stream.seek(whole)
        if not whole:
            try:
                self._append(fingerprint)
            except CheckpointError:
                self.close()
                raise

    def commit(self, done: dict[str, Any]) -> None:
        """Record some keys as done, together: after a crash all of them are there or none."""
        self._append(done)
        self.done.update(done)

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # what could not be written has been reported
            self._stream.close()

    def _append(self, record: dict[str, Any]) -> None:
        body = pickle.dumps(record, protocol=5)
        try:
            self._stream.write(framed(body))
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self.path.parent}: what is complete cannot be recorded: {error.strerror}. What was "
                "recorded before is whole. Free some space there, and run the same again to resume."
            ) from error

    def _load(self, fingerprint: dict[str, Any]) -> int:
        """Read what is whole, and return how many bytes that is."""
        if not self.path.exists():
            return 0
        position = 0
        with self.path.open("rb") as stream:
            for number, (body, end) in enumerate(read_records(stream)):
                record = pickle.loads(body)
                if number == 0:
                    _compare(self.path.parent, record, fingerprint)
                else:
                    self.done.update(record)
                position = end
        return position


def _compare(folder: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    for key in [*theirs, *(key for key in ours if key not in theirs)]:
        if theirs.get(key) != ours.get(key):
            raise CheckpointError(
                f"checkpoint {folder} belongs to another run: {key} was {theirs.get(key, 'absent')}, now it is "
                f"{ours.get(key, 'absent')}. Use another checkpoint_path, or delete this folder to begin anew."
            )
