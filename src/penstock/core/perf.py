"""Time and size of one task in one stage; a task carries one such record per stage it has passed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class StagePerfStats:
    """Time and size of one task in one stage. Records of the same stage add up.

    >>> total = StagePerfStats("clean", 0.5, num_items_processed=10) + StagePerfStats("clean", 0.25)
    >>> total.process_time, total.num_items_processed
    (0.75, 10)
    """

    stage_name: str
    process_time: float = 0.0
    actor_idle_time: float = 0.0
    input_data_size_mb: float = 0.0
    num_items_processed: int = 0
    custom_metrics: dict[str, float] = field(default_factory=dict)

    def __add__(self, other: StagePerfStats) -> StagePerfStats:
        """Add two records of one stage."""
        custom = dict(self.custom_metrics)
        for name, value in other.custom_metrics.items():
            custom[name] = custom.get(name, 0.0) + value
        return StagePerfStats(
            self.stage_name,
            self.process_time + other.process_time,
            self.actor_idle_time + other.actor_idle_time,
            self.input_data_size_mb + other.input_data_size_mb,
            self.num_items_processed + other.num_items_processed,
            custom,
        )

    def __radd__(self, other: object) -> StagePerfStats:
        """Let ``sum()`` start from 0."""
        return self if other == 0 else NotImplemented

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield every figure under a flat name; custom metrics as ``custom.<name>``."""
        yield "process_time", self.process_time
        yield "actor_idle_time", self.actor_idle_time
        yield "input_data_size_mb", self.input_data_size_mb
        yield "num_items_processed", self.num_items_processed
        for name, value in self.custom_metrics.items():
            yield f"custom.{name}", value

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {"stage_name": self.stage_name, **dict(self.items())}
