"""A console that prints text literally: no markup, no emoji codes, control characters escaped."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from penstock.core.printable import printable_lines


class PlainConsole(Console):
    """Console that escapes control characters in strings, also in tables.

    A ``Text`` object is printed unchanged: the code that creates it calls ``printable``.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - the settings of rich
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:  # noqa: ANN401 - the settings of rich
        """Convert a string to rich text, with control characters escaped."""
        return super().render_str(printable_lines(text), **settings)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError. Rich would end the process in the middle of a run."""
        raise BrokenPipeError
