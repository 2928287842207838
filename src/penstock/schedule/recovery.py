"""Finding the rows that kill a worker: halve, try, halve again; then do the work without them.

A probe runs a part of the rows and throws the result away, so what finally comes out is one result under one name, as
if the bad rows had never been there. A row is condemned only after it failed alone as often as a batch may fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.schedule.actions import Selection


@dataclass
class Recovery:
    """The search inside one batch."""

    step: int
    rows: int
    max_attempts: int
    # What was cut out in earlier rounds, at other steps.
    before: tuple[Selection, ...] = ()
    bad: list[int] = field(default_factory=list)
    error: str = ""
    _open: list[tuple[int, int]] = field(default_factory=list)
    _failures: int = 0

    def __post_init__(self) -> None:
        """Begin with both halves of everything: that the whole fails is known."""
        self._open = _halves(0, self.rows)

    def next_probe(self) -> Selection | None:
        """Return the next part to try; None when the search is over."""
        if not self._open:
            return None
        start, stop = self._open[-1]
        return Selection(self.step, start, stop)

    def passed(self) -> None:
        """Note that the last part tried has no bad row in it."""
        self._open.pop()
        self._failures = 0

    def failed(self, error: str) -> None:
        """Note that the last part tried has a bad row in it."""
        self.error = error
        start, stop = self._open.pop()
        if stop - start > 1:
            self._open += _halves(start, stop)
            return
        self._failures += 1
        if self._failures < self.max_attempts:
            self._open.append((start, stop))
        else:
            self.bad.append(start)
            self._failures = 0

    def verdict(self) -> tuple[Selection, ...]:
        """Return what to leave out when the batch is run for good."""
        return (*self.before, Selection(self.step, without=tuple(sorted(self.bad))))


def _halves(start: int, stop: int) -> list[tuple[int, int]]:
    """Return both halves, the later one first: the search takes from the end."""
    middle = (start + stop) // 2
    return [(middle, stop), (start, middle)] if stop - start > 1 else [(start, stop)]
