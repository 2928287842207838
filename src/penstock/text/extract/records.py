"""The two halves of getting documents out of a file: an iterator finds the records, an extractor makes text of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from penstock.text.extract.outcome import Damaged, Skipped


class DocumentIterator:
    """Finds the records of a file.

    >>> class Lines(DocumentIterator):
    ...     def iterate(self, file_path):
    ...         with open(file_path) as lines:
    ...             yield from ({"line": line} for line in lines)
    ...
    ...     def output_columns(self):
    ...         return ["line"]
    """

    def iterate(self, file_path: str) -> Iterator[dict[str, Any] | Skipped | Damaged] | None:
        """Yield records; ``Skipped`` or ``Damaged`` in the place of one says why there is none."""
        raise NotImplementedError(f"{type(self).__name__} defines no iterate(self, file_path).")

    def output_columns(self) -> list[str]:
        """Return the names of what a record holds."""
        raise NotImplementedError(f"{type(self).__name__} defines no output_columns(self).")


class DocumentExtractor:
    """Makes a document of a record, or says why not."""

    # Seconds of CPU one record may take. With a limit the extractor runs in a process of its own, so that a record
    # which makes it hang or crash costs that record; None runs it in the worker.
    cpu_limit_s: ClassVar[float | None] = None

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | Damaged | None:
        """Return the document; None where there is nothing to keep."""
        raise NotImplementedError(f"{type(self).__name__} defines no extract(self, record).")

    def input_columns(self) -> list[str]:
        """Return what a record must hold."""
        raise NotImplementedError(f"{type(self).__name__} defines no input_columns(self).")

    def output_columns(self) -> list[str]:
        """Return what a document holds."""
        raise NotImplementedError(f"{type(self).__name__} defines no output_columns(self).")
