"""The two parts of document extraction: an iterator yields records, an extractor makes text of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from penstock.text.extract.outcome import Damaged, Skipped


class DocumentIterator:
    """Yield the records of a file; write a subclass for another format.

    >>> class Lines(DocumentIterator):
    ...     def iterate(self, file_path):
    ...         with open(file_path) as lines:
    ...             yield from ({"line": line} for line in lines)
    ...
    ...     def output_columns(self):
    ...         return ["line"]
    """

    def iterate(self, file_path: str) -> Iterator[dict[str, Any] | Skipped | Damaged] | None:
        """Yield records, or ``Skipped`` or ``Damaged`` in place of a record that cannot be used."""
        raise NotImplementedError(f"{type(self).__name__} defines no iterate(self, file_path).")

    def output_columns(self) -> list[str]:
        """Return the fields of a record."""
        raise NotImplementedError(f"{type(self).__name__} defines no output_columns(self).")


class DocumentExtractor:
    """Make a document of a record; write a subclass for another format.

    >>> class Line(DocumentExtractor):
    ...     def extract(self, record):
    ...         return {"text": record["line"].strip()} if record["line"].strip() else Skipped("an empty line")
    ...
    ...     def input_columns(self):
    ...         return ["line"]
    ...
    ...     def output_columns(self):
    ...         return ["text"]
    >>> Line().extract({"line": " one "})
    {'text': 'one'}
    """

    # CPU seconds per record. With a limit the extractor runs in its own process, so that a hang or a crash costs only
    # that record; None runs it in the worker process.
    cpu_limit_s: ClassVar[float | None] = None

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | Damaged | None:
        """Return the document; None, ``Skipped`` or ``Damaged`` if there is none."""
        raise NotImplementedError(f"{type(self).__name__} defines no extract(self, record).")

    def input_columns(self) -> list[str]:
        """Return the fields that a record must have."""
        raise NotImplementedError(f"{type(self).__name__} defines no input_columns(self).")

    def output_columns(self) -> list[str]:
        """Return the fields of a document."""
        raise NotImplementedError(f"{type(self).__name__} defines no output_columns(self).")
