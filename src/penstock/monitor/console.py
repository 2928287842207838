"""Where messages to a person go: standard error, so that standard output stays clean for pipes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.core.printable import printable_lines

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 110


def stderr_console() -> Console:
    """Return the console for progress and summaries."""
    return _make(stderr=True)


def stdout_console() -> Console:
    """Return the console for what a command was asked to show."""
    return _make(stderr=False)


def say_on_stderr(text: str) -> None:
    """Print a line to standard error, also from a signal handler, and also if nothing is there to read it any more."""
    with suppress(OSError, ValueError):  # a closed terminal, a closed stream
        try:
            print(printable_lines(text), file=sys.stderr, flush=True)
        except RuntimeError:  # the handler has interrupted somebody who was printing
            os.write(2, f"{printable_lines(text)}\n".encode(errors="replace"))


def _make(*, stderr: bool) -> Console:
    from penstock.monitor.plain_console import PlainConsole

    console = PlainConsole(stderr=stderr)
    if not console.is_terminal:  # a log file has no width; 80 would cut tables that nobody needs cut
        console = PlainConsole(stderr=stderr, width=_WIDTH_WITHOUT_TERMINAL)
    return console
