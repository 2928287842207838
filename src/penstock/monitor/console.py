"""Where messages to a person go: standard error, so that standard output stays clean for pipes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 110


def stderr_console() -> Console:
    """Return the console for progress and summaries."""
    return _make(stderr=True)


def stdout_console() -> Console:
    """Return the console for what a command was asked to show."""
    return _make(stderr=False)


def _make(*, stderr: bool) -> Console:
    from penstock.monitor.plain_console import PlainConsole

    console = PlainConsole(stderr=stderr)
    if not console.is_terminal:  # a log file has no width; 80 would cut tables that nobody needs cut
        console = PlainConsole(stderr=stderr, width=_WIDTH_WITHOUT_TERMINAL)
    return console
