"""A console that takes texts as they are: no markup, no emoji codes, no control characters."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from penstock.core.printable import printable_lines


class PlainConsole(Console):
    """Prints strings, and strings in tables, with control characters written out.

    A ``Text`` is printed as it is made: its maker calls ``printable``.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - those of rich
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:  # noqa: ANN401 - those of rich
        """Return a string as rich text."""
        return super().render_str(printable_lines(text), **settings)

    def on_broken_pipe(self) -> None:
        """Raise like any other stream; Rich would end the process, in the middle of a run."""
        raise BrokenPipeError
