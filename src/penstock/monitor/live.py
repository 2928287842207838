"""Show a streaming run while it works: a live table on a terminal, periodic log lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from penstock.core.printable import printable, printable_lines
from penstock.core.snapshot import RunSnapshot
from penstock.monitor.console import stderr_console
from penstock.monitor.words import log_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

_REDRAW_INTERVAL_S = 0.25


class LiveView:
    """Context manager that shows a run; ``update`` may be called at any rate.

    The table is removed at the end, when the summary is printed.
    """

    def __init__(
        self,
        title: str,
        logging_interval: float,
        enabled: bool = True,
        *,
        clock: Callable[[], float] = time.monotonic,
        console: Console | None = None,
    ) -> None:
        self._title = printable(title)
        self._interval = logging_interval
        self._enabled = enabled
        self._clock = clock
        self._console = console or stderr_console()
        self._live: Live | None = None
        self._next_at = clock()

    def __enter__(self) -> LiveView:
        """Start the display."""
        self._next_at = self._clock()
        if self._enabled and self._console.is_interactive:
            from rich.live import Live
            from rich.text import Text

            self._live = live = Live(
                Text(f"{self._title}: starting"),
                console=self._console,
                auto_refresh=False,
                transient=True,
                # Output of the user's code appears above the table, unless standard output is a pipe or a file.
                redirect_stdout=sys.stdout.isatty(),
            )
            self._try_to_show(lambda: live.start(refresh=True))
        else:
            self._next_at += self._interval
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Restore the terminal."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def update(self, snapshot: RunSnapshot) -> None:
        """Show the current state of the run, unless the last update is too recent."""
        if not self._enabled:
            return
        now = self._clock()
        if now < self._next_at:
            return
        if self._live is not None:
            self._next_at = now + _REDRAW_INTERVAL_S
        else:
            self._next_at = now + self._interval
        self._try_to_show(lambda: self._draw(snapshot))

    def say(self, text: str) -> None:
        """Print a permanent message, above the table if there is one."""
        if self._enabled:
            shown = printable_lines(text)
            self._try_to_show(lambda: self._console.print(shown, highlight=False, markup=False, soft_wrap=True))

    def _try_to_show(self, show: Callable[[], None]) -> None:
        try:
            show()
        except OSError:  # the terminal was closed; the run continues
            self._enabled = False

    def _draw(self, snapshot: RunSnapshot) -> None:
        if self._live is None:
            line = printable(log_line(self._title, snapshot))
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            return
        from penstock.monitor.table import screen

        self._live.update(screen(self._title, snapshot, self._console), refresh=True)
