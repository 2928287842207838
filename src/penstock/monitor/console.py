"""Consoles for messages to the user. Progress goes to standard error; standard output holds only requested results."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.core.printable import printable_lines

if TYPE_CHECKING:
    from rich.console import Console

# Columns; a log file has no width of its own, and the default of 80 would cut tables.
_WIDTH_WITHOUT_TERMINAL = 110


def stderr_console() -> Console:
    """Return the console for progress and summaries."""
    return _make(stderr=True)


def stdout_console() -> Console:
    """Return the console for the result of a command."""
    return _make(stderr=False)


def say_on_stderr(text: str) -> None:
    """Print a line to standard error. Safe in a signal handler; ignores a closed terminal or stream."""
    with suppress(OSError, ValueError):  # closed terminal or stream
        try:
            print(printable_lines(text), file=sys.stderr, flush=True)
        except RuntimeError:  # the signal handler interrupted a print call
            os.write(2, f"{printable_lines(text)}\n".encode(errors="replace"))


def _make(*, stderr: bool) -> Console:
    from penstock.monitor.plain_console import PlainConsole

    console = PlainConsole(stderr=stderr)
    if not console.is_terminal:
        console = PlainConsole(stderr=stderr, width=_WIDTH_WITHOUT_TERMINAL)
    return console
