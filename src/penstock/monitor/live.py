"""A streaming run while it works: a table that stays in place on a terminal, a line now and then anywhere else."""

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

_SECONDS_BETWEEN_DRAWINGS = 0.25


class LiveView:
    """Shows a run as a context manager around the work; call ``update`` as often as you like.

    The table goes away at the end: the summary takes its place.
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
        """Begin to show."""
        self._next_at = self._clock()
        if self._enabled and self._console.is_interactive:
            from rich.live import Live
            from rich.text import Text

            self._live = live = Live(
                Text(f"{self._title}: starting"),
                console=self._console,
                auto_refresh=False,
                transient=True,
                # What the user's code prints goes above the table, but not where somebody reads it through a pipe.
                redirect_stdout=sys.stdout.isatty(),
            )
            self._shown(lambda: live.start(refresh=True))
        else:
            self._next_at += self._interval
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Give the terminal back."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def update(self, snapshot: RunSnapshot) -> None:
        """Show the run as it is now, unless something was shown just before."""
        if not self._enabled:
            return
        now = self._clock()
        if now < self._next_at:
            return
        if self._live is not None:
            self._next_at = now + _SECONDS_BETWEEN_DRAWINGS
        else:
            self._next_at = now + self._interval
        self._shown(lambda: self._draw(snapshot))

    def say(self, text: str) -> None:
        """Print something that stays, above the table if there is one."""
        if self._enabled:
            shown = printable_lines(text)
            self._shown(lambda: self._console.print(shown, highlight=False, markup=False, soft_wrap=True))

    def _shown(self, show: Callable[[], None]) -> None:
        try:
            show()
        except OSError:  # the terminal went away; the run must not
            self._enabled = False

    def _draw(self, snapshot: RunSnapshot) -> None:
        if self._live is None:
            line = printable(log_line(self._title, snapshot))
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            return
        from penstock.monitor.table import screen

        self._live.update(screen(self._title, snapshot, self._console), refresh=True)
