"""Find the rows that kill a worker by bisection, then run the batch without them.

A probe runs a part of the rows and discards the result, so the final output is one result under one name, as if the bad
rows had never existed. A row is given up only after it has failed alone as often as a batch may fail.

A failing probe may take a whole time limit, so it is skipped where its outcome is known: if a part fails and its first
half passes, the second half is not tried as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.schedule.actions import Selection

# The search ends when this many rows are bad, or when the first few and the last row are bad and no good row was found:
# then single rows are not the cause.
_MAX_BAD_ROWS = 100
_FIRST_BAD_ROWS = 8


class _Part(NamedTuple):
    """A range of rows that has not been tried yet."""

    start: int
    stop: int
    # Whether it must contain a bad row if the first half has none.
    is_other_half: bool = False


@dataclass
class Recovery:
    """The search for bad rows in one batch, at one step of its chain."""

    step: int
    rows: int
    max_attempts: int
    # Rows left out by earlier searches, at other steps.
    before: tuple[Selection, ...] = ()
    # The rows found so far, and why each is bad.
    bad: dict[int, str] = field(default_factory=dict)
    error: str = ""
    # Where the rows may be divided: between tasks that fail as a whole. None: anywhere.
    cuts: tuple[int, ...] | None = None
    # Rows of this step that an earlier search has found, with the reasons.
    known: dict[int, str] = field(default_factory=dict)
    # Whether the failure was caused by the batch; a worker killed from outside proves nothing.
    is_certain: bool = True
    _open: list[_Part] = field(default_factory=list)
    _failures: int = 0
    _passed: bool = False
    _condemned: int = 0

    def __post_init__(self) -> None:
        """Begin with the two halves: the whole is known to fail."""
        self._push_halves(0, self.rows, is_certain=self.is_certain)

    def next_probe(self) -> Selection | None:
        """Return the next part to try; None when the search is over."""
        if not self._open:
            return None
        part = self._open[-1]
        return Selection(self.step, part.start, part.stop, tuple(self.known), tuple(self.known.values()))

    def passed(self) -> None:
        """Record that the last part tried has no bad row."""
        self._open.pop()
        self._failures = 0
        self._passed = True
        if self._open and self._open[-1].is_other_half:
            other = self._open.pop()
            self._push_halves(other.start, other.stop, is_certain=True)

    def failed(self, error: str, *, for_sure: bool = False, enough: int = 0, try_again: bool = False) -> None:
        """Record that the last part tried has a bad row, or, with ``try_again``, may have one.

        A row that fails alone is given up after ``enough`` failures, or at once if ``for_sure``.
        """
        self.error = error
        part = self._open.pop()
        self._failures += 1
        can_be_cut = self._middle(part.start, part.stop) is not None
        attempts = (self.max_attempts if try_again else 1) if can_be_cut else max(enough, self.max_attempts)
        if self._failures < attempts and not (for_sure and not can_be_cut):
            self._open.append(part)
            return
        self._failures = 0
        if self._open:  # the bad row is in the first half: nothing is known about the other half
            self._open[-1] = self._open[-1]._replace(is_other_half=False)
        if can_be_cut:
            self._push_halves(part.start, part.stop, is_certain=not try_again)
            return
        self._condemn(part, error)
        self._condemned += 1
        if self._condemned == _FIRST_BAD_ROWS and not self._passed:
            self._try_last_row()

    @property
    def is_hopeless(self) -> bool:
        """Whether so many rows have failed that continuing would cost more than it could save."""
        return self._condemned >= (_MAX_BAD_ROWS if self._passed else _FIRST_BAD_ROWS + 1) and bool(self._open)

    @property
    def has_passed(self) -> bool:
        """Whether any part of the batch could be processed."""
        return self._passed

    def give_up(self) -> None:
        """End the search and count all rows that were not tried as bad."""
        why = f"{self.error} (this row was not tried alone: {self._condemned} others of its batch had failed alone)"
        while self._open:
            self._condemn(self._open.pop(), why)

    def verdict(self) -> tuple[Selection, ...]:
        """Return the rows to leave out in the final run of the batch."""
        left_out = dict(sorted({**self.known, **self.bad}.items()))
        return (*self.before, Selection(self.step, without=tuple(left_out), reasons=tuple(left_out.values())))

    def _try_last_row(self) -> None:
        """Try the last row next: bad rows are often adjacent, so the first rows say little about the others."""
        if self.cuts is None and self._open and self._open[0].stop - self._open[0].start > 1:
            start, stop, _ = self._open[0]
            self._open[0] = _Part(start, stop - 1)
            self._open.append(_Part(stop - 1, stop))

    def _condemn(self, part: _Part, reason: str) -> None:
        self.bad |= {row: reason for row in range(part.start, part.stop) if row not in self.known}

    def _push_halves(self, start: int, stop: int, *, is_certain: bool) -> None:
        """Add both halves, the second one first: the search takes from the end."""
        middle = self._middle(start, stop)
        if middle is None:
            self._open.append(_Part(start, stop))
        else:
            self._open += [_Part(middle, stop, is_other_half=is_certain), _Part(start, middle)]

    def _middle(self, start: int, stop: int) -> int | None:
        if self.cuts is None:
            return (start + stop) // 2 if stop - start > 1 else None
        inside = [cut for cut in self.cuts if start < cut < stop]
        return inside[len(inside) // 2] if inside else None
