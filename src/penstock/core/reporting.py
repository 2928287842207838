"""What a stage may say while it works: records it sets aside, numbers of its own. The worker collects them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.core.rejection import MAX_EXCERPT, Rejection
from penstock.core.verdicts import Verdicts


class Reporting:
    """The voice of a stage."""

    name: str
    # The worker sets this; nothing in core reads a clock of its own.
    _clock: Callable[[], float] | None = None
    # The worker sets this where somebody will read what is recorded.
    _keeps_ledger: bool = False

    def reject(
        self,
        reason: str,
        *,
        source: str = "",
        position: int | None = None,
        excerpt: str = "",
        byte: int | None = None,
    ) -> None:
        """Set one record aside: it goes to the dead-letter file with this reason, and the rest goes on."""
        record = Rejection(self.name, reason, source, position, excerpt[:MAX_EXCERPT], byte=byte)
        self.__dict__.setdefault("_rejections", []).append(record)

    def take_rejections(self) -> list[Rejection]:
        """Return what was rejected since last asked."""
        taken: list[Rejection] = self.__dict__.pop("_rejections", [])
        return taken

    def record(self, verdicts: Verdicts) -> None:
        """Say of some documents how they scored and whether they stay; kept in the ledger of the run."""
        if self._keeps_ledger:
            self.__dict__.setdefault("_verdicts", []).append(verdicts)

    def take_verdicts(self) -> list[Verdicts]:
        """Return what was recorded since last asked."""
        taken: list[Verdicts] = self.__dict__.pop("_verdicts", [])
        return taken

    def _log_metric(self, name: str, value: float) -> None:
        """Add to a number of the stage's own, shown with its counters."""
        metrics: dict[str, float] = self.__dict__.setdefault("_custom_metrics", {})
        metrics[name] = metrics.get(name, 0.0) + value

    def _log_metrics(self, metrics: dict[str, float]) -> None:
        """Add to several numbers of the stage's own."""
        for name, value in metrics.items():
            self._log_metric(name, value)

    @contextmanager
    def _time_metric(self, name: str) -> Iterator[None]:
        """Add the seconds a block takes to a number of the stage's own; counts nothing outside a worker."""
        start = self._clock() if self._clock else 0.0
        yield
        self._log_metric(name, self._clock() - start if self._clock else 0.0)

    def _consume_custom_metrics(self) -> dict[str, float]:
        """Return the stage's own numbers since last asked."""
        taken: dict[str, float] = self.__dict__.pop("_custom_metrics", {})
        return taken
