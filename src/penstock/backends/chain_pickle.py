"""Pickle the stages for a worker, and name the modules that it must import before unpickling them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from penstock.core.stage import ProcessingStage
from penstock.errors import PlanError
from penstock.runtime import by_value

_PRELUDES = ("penstock.compat.nemo_curator",)


def preludes() -> tuple[str, ...]:
    """Return the modules that a worker must import before the user's own, because this process did."""
    return tuple(module for module in _PRELUDES if module in sys.modules)


def pickled_chain(pipeline: str, steps: Sequence[ProcessingStage[Any, Any]]) -> bytes:
    """Return stages as bytes; raise ``PlanError`` if one of them cannot be pickled."""
    try:
        data = by_value.dumps(tuple(steps))
    except Exception as error:
        names = ", ".join(f"'{step.name}'" for step in steps)
        raise PlanError(
            pipeline,
            [
                f"one of the stages {names} cannot be sent to a worker process: {type(error).__name__}: {error}. "
                "Open files, locks and connections belong into setup(); or run with InlineExecutor()."
            ],
        ) from error
    return data
