"""What a run did, stage by stage: a table for a person, plain data for a program."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

from penstock.core.counters import StageCounters
from penstock.core.printable import printable
from penstock.core.sizes import human_bytes, plural
from penstock.monitor.console import stderr_console
from penstock.storage.listing import NOT_READ, describe

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class RunSummary:
    """The totals of one run."""

    pipeline: str
    counters: Sequence[StageCounters]
    seconds: float
    output: str | None = None
    run_folder: str | None = None
    # Whether it says of each document there what was decided and why.
    has_ledger: bool = False
    dead_letters: str | None = None
    num_dead_letters: int = 0
    # Source tasks that an earlier run had completed; their counts are not in the table.
    resumed: int = 0
    # What an executor with a scheduler adds: its pools, every plan with its reason, and how much was in flight at most.
    pools: list[dict[str, Any]] | None = None
    plans: list[dict[str, Any]] | None = None
    peak_bytes: int | None = None
    budget_bytes: int | None = None
    # Items that failed in every attempt.
    failed: int | None = None
    # Why the run ended before it was done; then nobody knows what became of the documents that were on their way.
    stopped: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the totals as plain data."""
        scheduled = {
            "pools": self.pools,
            "plans": self.plans,
            "peak_bytes": self.peak_bytes,
            "budget_bytes": self.budget_bytes,
            "failed": self.failed,
            "stopped": self.stopped,
        }
        return {
            "pipeline": self.pipeline,
            "seconds": round(self.seconds, 3),
            "output": self.output,
            "run_folder": self.run_folder,
            "resumed_source_tasks": self.resumed,
            "dead_letters": {"path": self.dead_letters, "count": self.num_dead_letters},
            "stages": [counters.to_dict() for counters in self.counters],
            **{key: value for key, value in scheduled.items() if value is not None},
        }

    def print(self) -> None:
        """Show the totals."""
        console = stderr_console()
        with suppress(OSError):  # nothing is there to read it; it is also in the run folder
            console.print(self._table())
            for line in self._closing_lines():
                console.print(printable(line), soft_wrap=True)

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table

        table = Table(title=f"{self.pipeline}: {self.seconds:.1f} s", title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("stage", overflow="fold", min_width=12)
        for heading in ("in", "out", "dropped", "bytes in", "bytes out", "seconds"):
            table.add_column(heading, justify="right", no_wrap=True)
        previous = ""
        for c in self.counters:
            # What they are called is said where it changes.
            before = f"{c.items_in:,}" if c.noun_in == previous else _items(c.items_in, c.noun_in)
            after = f"{c.items_out:,}" if c.noun_out in ("", c.noun_in) else _items(c.items_out, c.noun_out)
            previous = c.noun_out or c.noun_in
            table.add_row(
                c.stage,
                before,
                after,
                f"{c.dropped:,} ({c.dropped / c.items_in:.1%})" if c.dropped else "",
                human_bytes(c.bytes_in),
                human_bytes(c.bytes_out),
                f"{c.seconds:.2f}",
            )
        return table

    def _closing_lines(self) -> list[str]:
        lines = []
        read = next((_documents_at_first(c) for c in self.counters if "documents" in (c.noun_in, c.noun_out)), None)
        dropped = {c.stage: c.dropped for c in self.counters if c.dropped and c.noun_in == "documents"}
        grew = any(c.noun_in == c.noun_out == "documents" and c.items_out > c.items_in for c in self.counters)
        if self.stopped is not None:
            lines.append(f"The run was stopped before it was done; {plural(read or 0, 'document')} had been read.")
        elif read is not None and not grew:  # where stages make documents, "kept" would mean nothing
            by = "; ".join(f"{count:,} by {stage}" for stage, count in sorted(dropped.items(), key=lambda e: -e[1]))
            failed = sum(c.failed for c in self.counters if c.noun_in == "documents")
            kept = read - sum(dropped.values()) - failed
            share = f" ({kept / read:.1%})" if read else ""
            lines.append(f"Read {plural(read, 'document')}, kept {kept:,}{share}, dropped {sum(dropped.values()):,}"
                         + (f": {by}" if by else "") + (f", failed {failed:,}." if failed else "."))  # fmt: skip
        if self.resumed:
            lines.append(f"Went on where an earlier run stopped: {self.resumed:,} source tasks were complete already.")
        if not_read := self._not_read():
            lines.append(describe(not_read))
        if self.num_dead_letters:
            lines.append(
                f"Set aside {plural(self.num_dead_letters, 'record')}, with the reason for each: {self.dead_letters}"
            )
        if self.failed:
            lines.append(f"{_items(self.failed, 'items')} failed in every attempt.")
        if self.pools is not None and (sentence := self._how_it_ran()):
            lines.append(sentence)
        if self.output is not None:
            lines.append(f"Output: {self.output}   (this table as JSON: {self.run_folder}/summary.json)")
        if self.has_ledger:
            lines.append(
                f"Why a document was kept or dropped: penstock why {quote(self.output or self.run_folder or '')} DOC_ID"
            )
        return lines

    def _not_read(self) -> dict[str, int]:
        """Return what readers found and did not read: how many files for each reason."""
        found = (metric for counters in self.counters for metric in counters.metrics.items())
        return {name.removeprefix(NOT_READ): int(count) for name, count in found if name.startswith(NOT_READ)}

    def _how_it_ran(self) -> str:
        """Return one sentence on memory, plans and what decided the speed; empty if nothing is known."""
        parts = []
        if self.peak_bytes is not None:
            budget = f" of the {human_bytes(self.budget_bytes)} budget" if self.budget_bytes else ""
            parts.append(f"at most {human_bytes(self.peak_bytes)}{budget} was in flight")
        if self.plans is not None:
            applied = sum(bool(plan.get("applied", True)) for plan in self.plans)
            parts.append(f"{applied:,} plan{'' if applied == 1 else 's'}")
        if (slowest := self._bottleneck()) is not None:
            pool = next((pool for pool in self.pools or () if pool.get("name") == slowest), {})
            lacks = f" on {pool['bound_by']}" if pool.get("bound_by") else ""
            parts.append(f"bound by '{slowest}'{lacks}")
        sentence = "; ".join(parts)
        return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""

    def _bottleneck(self) -> str | None:
        """Return the pool that decided the speed for most of the run; the last plan alone only tells of the tail."""
        plans = self.plans or []
        begins = [plan.get("at", 0.0) for plan in plans]
        held: dict[str, float] = {}
        for plan, begin, end in zip(
            plans, begins, [*begins[1:], begins[0] + self.seconds] if plans else (), strict=True
        ):
            if plan.get("bottleneck") is not None:
                held[plan["bottleneck"]] = held.get(plan["bottleneck"], 0.0) + max(0.0, end - begin)
        return max(held, key=lambda name: held[name], default=None)


def _documents_at_first(counters: StageCounters) -> int:
    return counters.items_in if counters.noun_in == "documents" else counters.items_out


def _items(count: int, noun: str) -> str:
    return f"{count:,} {noun.removesuffix('s') if count == 1 else noun}"
