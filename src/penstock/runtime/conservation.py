"""Check at the end of a run that no row was lost or duplicated silently.

The following are compared, in rows (a task that cannot be split is one row):

- rows that entered a pool, as stored by the driver, with rows that reached the first stage of its workers;
- rows that reached a stage with the sum of rows that it processed and rows that were set aside;
- output rows of a stage with rows that reached the next one;
- output rows that a worker counted for a batch with rows that the driver received;
- rows that were set aside with rows in the dead-letter file.

A stage may emit any number of rows for those it receives; rows missing inside a stage are rows that it dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.counters import StageCounters
from penstock.core.rejection import Rejection
from penstock.errors import LostRowsError

# Mismatches listed in the error.
_MOST_SHOWN = 10


class Conservation:
    """Row counts of one run as seen by the driver.

    ``parts`` is, for each pool, the number of stages of the user's pipeline that were merged into each step.
    """

    def __init__(self, parts: Sequence[Sequence[int]]) -> None:
        # The index of the first counter of each step among those of its pool.
        self._steps = [[sum(steps[:number]) for number in range(len(steps))] for steps in parts]
        self._entered = [0] * len(parts)
        self._given_up = [0] * len(parts)
        self._mistakes: list[str] = []

    def entered(self, pool: int, rows: int) -> None:
        """Count rows that were queued for a pool."""
        self._entered[pool] += rows

    def given_up(self, pool: int, rejections: Sequence[Rejection]) -> None:
        """Count rows that no worker could process, which the driver recorded as rejections."""
        self._given_up[pool] += len(rejections)

    def batch_done(
        self, pool: int, counters: Sequence[StageCounters], rejections: Sequence[Rejection], rows_given: int | None
    ) -> None:
        """Compare the output rows a worker counted with ``rows_given``; None if an earlier attempt sent some."""
        last = counters[self._steps[pool][-1]]
        if rows_given is not None and last.rows_out != rows_given:
            self._mistakes.append(f"'{last.stage}' gave {last.rows_out:,} rows and {rows_given:,} arrived")
        failed = sum(counter.rows_failed for counter in counters)
        written = sum(rejection.failed for rejection in rejections)
        if failed != written:
            self._mistakes.append(f"{failed:,} rows failed before '{last.stage}' and {written:,} were written down")

    def check(self, counters: Sequence[Sequence[StageCounters]], unfinished: Sequence[str] = ()) -> None:
        """Raise if the counts of a run that has done all its work do not add up."""
        mistakes = list(self._mistakes)
        for pool, (steps, counted) in enumerate(zip(self._steps, counters, strict=True)):
            arrived = self._entered[pool] - self._given_up[pool]
            mistakes += compare_steps([counted[number] for number in steps], arrived)
        if unfinished:
            mistakes.append(f"{len(unfinished):,} source tasks are not complete, such as {unfinished[0]}")
        raise_if_any(mistakes)


def compare_steps(steps: Sequence[StageCounters], entered: int) -> list[str]:
    """Return a sentence for each place in a chain where rows were lost or duplicated."""
    mistakes = []
    before, given = "", entered
    for step in steps:
        if step.rows_in != given:
            giver = f"'{before}' gave" if before else "there were"
            mistakes.append(f"{giver} {given:,} rows and {step.rows_in:,} reached '{step.stage}'")
        if step.rows_in != step.rows_processed + step.rows_failed:
            mistakes.append(
                f"{step.rows_in:,} rows reached '{step.stage}', which processed {step.rows_processed:,}, "
                f"and {step.rows_failed:,} were set aside"
            )
        before, given = step.stage, step.rows_out
    return mistakes


def raise_if_any(mistakes: Sequence[str]) -> None:
    """Raise ``LostRowsError`` if there are mismatches."""
    if not mistakes:
        return
    more = [f"and {len(mistakes) - _MOST_SHOWN:,} more"] if len(mistakes) > _MOST_SHOWN else []
    lines = "".join(f"\n  - {mistake}" for mistake in [*mistakes[:_MOST_SHOWN], *more])
    raise LostRowsError(
        f"the counts of this run do not add up, so its output may lack rows or have some twice:{lines}\n"
        "This is a defect of Penstock. Please report it with these lines and the summary.json of the run."
    )
