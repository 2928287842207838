"""What a stage reports while it runs: rejected records, verdicts and custom metrics. The worker collects them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.core.rejection import MAX_EXCERPT, Rejection
from penstock.core.verdicts import Verdicts


class Reporting:
    """Methods by which a stage reports rejected records, verdicts and metrics."""

    name: str
    # The worker sets this; nothing in core reads a clock of its own.
    _clock: Callable[[], float] | None = None
    # The worker sets this in a run that keeps a ledger.
    _keeps_ledger: bool = False
    # Whether another stage of the pipeline has read the same input before and has reported its malformed records.
    is_repetition: bool = False

    def reject(
        self,
        reason: str,
        *,
        source: str = "",
        position: int | None = None,
        excerpt: str = "",
        byte: int | None = None,
    ) -> None:
        """Set one record aside: it is written to the dead-letter file with this reason; the others are processed."""
        if self.is_repetition:
            return
        record = Rejection(self.name, reason, source, position, excerpt[:MAX_EXCERPT], byte=byte)
        self.__dict__.setdefault("_rejections", []).append(record)

    def take_rejections(self) -> list[Rejection]:
        """Return the records rejected since the last call."""
        taken: list[Rejection] = self.__dict__.pop("_rejections", [])
        return taken

    def record(self, verdicts: Verdicts) -> None:
        """Record the scores and decisions of a filter for some documents in the ledger of the run."""
        if self._keeps_ledger:
            self.__dict__.setdefault("_verdicts", []).append(verdicts)

    def take_verdicts(self) -> list[Verdicts]:
        """Return the verdicts recorded since the last call."""
        taken: list[Verdicts] = self.__dict__.pop("_verdicts", [])
        return taken

    def _log_metric(self, name: str, value: float) -> None:
        """Add to a custom metric of the stage, shown with its counters."""
        metrics: dict[str, float] = self.__dict__.setdefault("_custom_metrics", {})
        metrics[name] = metrics.get(name, 0.0) + value

    def _log_metrics(self, metrics: dict[str, float]) -> None:
        """Add to several custom metrics of the stage."""
        for name, value in metrics.items():
            self._log_metric(name, value)

    @contextmanager
    def _time_metric(self, name: str) -> Iterator[None]:
        """Add the seconds that a block takes to a custom metric; adds 0 outside a worker."""
        start = self._clock() if self._clock else 0.0
        yield
        self._log_metric(name, self._clock() - start if self._clock else 0.0)

    def _consume_custom_metrics(self) -> dict[str, float]:
        """Return the custom metrics since the last call."""
        taken: dict[str, float] = self.__dict__.pop("_custom_metrics", {})
        return taken
