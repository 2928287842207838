"""Every error Penstock raises on purpose.

::

    PenstockError                 something the user can act on; printed without a traceback by the CLI
    ├── PlanError                 the pipeline cannot run as written; holds every mistake found
    ├── RecipeError               a YAML recipe or an override on the command line is wrong
    ├── InputError                a path cannot be read, or its content is not what was expected
    │   └── MissingColumnError    a batch lacks a column that a stage needs
    ├── OutputError               a result cannot be written to the requested path
    ├── StageError                a stage raised while it processed a task; names stage and task
    ├── LostRowsError             the counts of a run do not add up: rows were lost or doubled, a defect of Penstock
    ├── ClusterError              a cluster cannot be started, reached or used
    ├── CheckpointError           a checkpoint belongs to another pipeline, or cannot be read
    ├── MissingExtraError         an optional dependency is not installed; names the pip command
    ├── DuplicateAlarmError       a source would lose more documents as duplicates than is plausible (in dedup)
    └── MissingNameError          a script asks for a name of another framework that we do not have (in compat)

    SystemExit
    └── Terminated                SIGTERM or SIGHUP ended a run; the exit code is 143 or 129

A message says what happened, where, what was expected, what was found, and what to do.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class PenstockError(Exception):
    """An error that the user can act on."""


class PlanError(PenstockError, ValueError):
    """The pipeline cannot run as written."""

    def __init__(self, pipeline: str, mistakes: Sequence[str]) -> None:
        self.pipeline = pipeline
        self.mistakes = tuple(mistakes)
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        lines = "".join(f"\n  - {mistake}" for mistake in mistakes)
        super().__init__(f"pipeline '{pipeline}' cannot run, {count}:{lines}")

    def __reduce__(self) -> tuple[type[PlanError], tuple[str, tuple[str, ...]]]:
        """Pickle by the two arguments, so that the error can be sent between processes."""
        return PlanError, (self.pipeline, self.mistakes)


class RecipeError(PenstockError, ValueError):
    """A YAML recipe or an override on the command line is wrong."""


class InputError(PenstockError):
    """A path cannot be read, or its content is not what was expected."""


class MissingColumnError(InputError, KeyError):
    """A batch lacks a column that a stage needs."""

    def __init__(self, stage: str, column: str, present: Iterable[str], parameter: str | None = None) -> None:
        self.stage, self.column, self.present, self.parameter = stage, column, tuple(present), parameter
        has = ", ".join(f"'{name}'" for name in self.present) or "no columns at all"
        hint = ""
        if parameter is not None and self.present:
            guess = nearest(column, self.present) or next((c for c in self.present if c != "id"), self.present[0])
            hint = f" Set {parameter}='{guess}' if that is the one."
        super().__init__(f"stage '{stage}': column '{column}' is missing; the batch has {has}.{hint}")

    def __str__(self) -> str:
        """Return the message itself; KeyError would print its repr."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[MissingColumnError], tuple[str, str, tuple[str, ...], str | None]]:
        """Pickle by the arguments, so that the error can be sent between processes."""
        return MissingColumnError, (self.stage, self.column, self.present, self.parameter)


class OutputError(PenstockError):
    """A result cannot be written to the requested path."""


class StageError(PenstockError, RuntimeError):
    """A stage raised while it processed a task."""


class LostRowsError(PenstockError, RuntimeError):
    """The counts of a run do not add up."""


class ClusterError(PenstockError, RuntimeError):
    """A cluster cannot be started, reached or used."""


class CheckpointError(PenstockError):
    """A checkpoint belongs to another pipeline, or cannot be read."""


class MissingExtraError(PenstockError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str, purpose: str) -> None:
        self.module, self.extra, self.purpose = module, extra, purpose
        super().__init__(f"{purpose} needs '{module}', which is not installed. Type: pip install 'penstock[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        """Pickle by the arguments, so that the error can be sent between processes."""
        return MissingExtraError, (self.module, self.extra, self.purpose)


class Terminated(SystemExit):
    """A signal ended a run: SIGTERM (exit code 143) or SIGHUP (129).

    It is a SystemExit, so that a script which does not catch it ends with the exit code that batch schedulers expect,
    and without a traceback.

    >>> Terminated(signal.SIGTERM).code, Terminated(signal.SIGTERM).name
    (143, 'SIGTERM')
    """

    def __init__(self, number: int) -> None:
        self.signal = number
        self.name = signal.Signals(number).name
        super().__init__(128 + number)

    def __reduce__(self) -> tuple[type[Terminated], tuple[int]]:
        """Pickle by the signal number, so that it can be sent between processes."""
        return Terminated, (self.signal,)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to ``word``, or None if none is similar.

    >>> nearest("JsonlRaeder", ["JsonlReader", "ParquetReader"])
    'JsonlReader'
    >>> nearest("banana", ["JsonlReader"]) is None
    True
    """
    candidates = list(known)
    by_lower = {name.lower(): name for name in candidates}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" with a leading space, or an empty string."""
    guess = nearest(word, known)
    return f" Did you mean '{guess}'?" if guess else ""
