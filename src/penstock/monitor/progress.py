"""Show the progress of an inline run: a live bar on a terminal, periodic log lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from penstock.core.counters import StageCounters
from penstock.core.printable import printable
from penstock.core.sizes import human_bytes
from penstock.monitor.console import stderr_console

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Progress:
    """Context manager that shows how many tasks of a run are done."""

    def __init__(self, title: str, logging_interval: float, *, enabled: bool = True) -> None:
        self.total: int | None = None
        self._title = printable(title)
        self._interval = logging_interval
        self._enabled = enabled
        self._console = stderr_console()
        self._started = self._last_line = time.monotonic()
        self._bar: RichProgress | None = None
        self._bar_task: TaskID | None = None

    def __enter__(self) -> Progress:
        """Start the display."""
        self._started = self._last_line = time.monotonic()
        if self._enabled and self._console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(
                TextColumn("{task.description}", style="bold", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[detail]}", markup=False),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
                # Output of the user's code appears above the bar, unless standard output is a pipe or a file.
                redirect_stdout=sys.stdout.isatty(),
            )
            self._bar_task = self._bar.add_task(self._title, total=None, detail="")
            self._bar.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Restore the terminal."""
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, counters: Sequence[StageCounters]) -> None:
        """Show the number of completed tasks."""
        if not self._enabled:
            return
        seen = max((c.items_out for c in counters), default=0)
        size = max((c.bytes_out for c in counters), default=0)
        rate = size / max(time.monotonic() - self._started, 1e-9)
        detail = f"{seen:,} items, {human_bytes(rate)}/s"
        if self._bar is not None and self._bar_task is not None:
            self._bar.update(self._bar_task, completed=done, total=self.total, detail=detail)
        elif time.monotonic() - self._last_line >= self._interval:
            self._last_line = time.monotonic()
            with suppress(OSError):  # standard error was closed; the run continues
                self._console.print(f"{self._title}: {done} of {self.total} tasks, {detail}", highlight=False)
