"""Detect a stage that fails on every row after the first rows, and stop the run early.

The run is stopped when at least 100 rows have reached a stage, all of them failed for the same cause, and no row ever
passed that stage. If the user wants failures to be ignored, they must come from more than one batch: a single bad file
should not stop such a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.core.counters import StageCounters
from penstock.core.rejection import Rejection
from penstock.plan.plan import Pool
from penstock.runtime.blame import row_in_words

_MIN_FAILED_ROWS = 100


@dataclass
class _Stage:
    """Counts of the rows that reached one step."""

    # The index of its counters among those of its pool, and the stage name in its rejections.
    counter: int
    name: str
    has_passed: bool = False
    failed: int = 0
    batches: int = 0
    causes: set[str] = field(default_factory=set)
    first: Rejection | None = None


class Systematic:
    """Watch for a stage that fails on every row."""

    def __init__(self, pools: Sequence[Pool], *, ignores_failures: bool) -> None:
        self._batches_needed = 2 if ignores_failures else 1
        self._stages: list[list[_Stage]] = []
        for pool in pools:
            counts = [len(step.parts()) for step in pool.steps]
            self._stages.append([_Stage(sum(counts[:number]), step.name) for number, step in enumerate(pool.steps)])

    def note(self, pool: int, counters: Sequence[StageCounters], rejections: Sequence[Rejection]) -> str | None:
        """Record the result of a batch; return a message for the user if the run should stop."""
        stages = self._stages[pool]
        for stage in stages:
            if stage.has_passed:
                continue
            counter = counters[stage.counter]
            if counter.rows_processed:
                stage.has_passed = True
            elif counter.rows_failed:
                failures = [rejection for rejection in rejections if rejection.failed and rejection.stage == stage.name]
                stage.failed += counter.rows_failed
                stage.batches += 1
                stage.causes |= {failure.cause for failure in failures}
                stage.first = stage.first or next(iter(failures), None)
                if self._is_broken(stage):
                    return _in_words(stage)
        # A stage that has processed a row is not watched any more.
        self._stages[pool] = [stage for stage in stages if not stage.has_passed]
        return None

    def _is_broken(self, stage: _Stage) -> bool:
        return stage.failed >= _MIN_FAILED_ROWS and stage.batches >= self._batches_needed and len(stage.causes) == 1


def _in_words(stage: _Stage) -> str:
    lines = [f"stage '{stage.name}' failed on each of its first {stage.failed:,} rows, in the same way; the run was "
             "stopped. Nothing has passed this stage."]  # fmt: skip
    if stage.first is not None:
        lines.append(f"The first: {stage.first.reason}")
        lines.append(f"The row: {row_in_words(stage.first)}")
        lines += [f"To see it fail: {stage.first.reproduce}"] if stage.first.reproduce else []
    return "\n  ".join(lines)
