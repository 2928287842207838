"""Finding the rows that kill a worker: halve, try, halve again; then do the work without them.

A probe runs a part of the rows and throws the result away, so what finally comes out is one result under one name, as
if the bad rows had never been there. A row is condemned only after it failed alone as often as a batch may fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.schedule.actions import Selection

# When so many rows are bad, or the first few and not a single good one was found, it is not the rows.
_MAX_BAD = 100
_MAX_BAD_WITHOUT_A_GOOD_ONE = 8


@dataclass
class Recovery:
    """The search inside one batch, at one step of its chain."""

    step: int
    rows: int
    max_attempts: int
    # What was cut out in earlier rounds, at other steps.
    before: tuple[Selection, ...] = ()
    bad: list[int] = field(default_factory=list)
    error: str = ""
    # Where the rows may be cut apart, if not everywhere: between tasks that are refused as a whole.
    cuts: tuple[int, ...] | None = None
    # Rows of this step that an earlier round has found.
    known: tuple[int, ...] = ()
    _open: list[tuple[int, int]] = field(default_factory=list)
    _failures: int = 0
    _passed: bool = False
    _condemned: int = 0

    def __post_init__(self) -> None:
        """Begin with both halves of everything: that the whole fails is known."""
        self._push_halves(0, self.rows)

    def next_probe(self) -> Selection | None:
        """Return the next part to try; None when the search is over."""
        if not self._open:
            return None
        start, stop = self._open[-1]
        return Selection(self.step, start, stop, self.known)

    def passed(self) -> None:
        """Note that the last part tried has no bad row in it."""
        self._open.pop()
        self._failures = 0
        self._passed = True

    def failed(self, error: str, *, for_sure: bool = False, enough: int = 0, try_again: bool = False) -> None:
        """Note that the last part tried has a bad row in it, or, with ``try_again``, may have.

        A row that fails alone is condemned when it has done so ``enough`` times, or at once if ``for_sure``.
        """
        self.error = error
        start, stop = self._open.pop()
        self._failures += 1
        if self._middle(start, stop) is not None:
            if try_again and self._failures < self.max_attempts:
                self._open.append((start, stop))
                return
            self._failures = 0
            self._push_halves(start, stop)
            return
        if self._failures < max(enough, self.max_attempts) and not for_sure:
            self._open.append((start, stop))
            return
        self.bad += [row for row in range(start, stop) if row not in self.known]
        self._condemned += 1
        self._failures = 0

    @property
    def is_hopeless(self) -> bool:
        """Whether so much has failed that looking on would cost more than it could save."""
        return self._condemned >= (_MAX_BAD if self._passed else _MAX_BAD_WITHOUT_A_GOOD_ONE) and bool(self._open)

    def verdict(self) -> tuple[Selection, ...]:
        """Return what to leave out when the batch is run for good."""
        return (*self.before, Selection(self.step, without=tuple(sorted((*self.known, *self.bad)))))

    def _push_halves(self, start: int, stop: int) -> None:
        """Open both halves, the later one first: the search takes from the end."""
        middle = self._middle(start, stop)
        self._open += [(start, stop)] if middle is None else [(middle, stop), (start, middle)]

    def _middle(self, start: int, stop: int) -> int | None:
        if self.cuts is None:
            return (start + stop) // 2 if stop - start > 1 else None
        inside = [cut for cut in self.cuts if start < cut < stop]
        return inside[len(inside) // 2] if inside else None
