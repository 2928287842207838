"""Summarize a run, stage by stage: as a table for people, as plain data for programs."""

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
    # Whether the run folder holds a ledger: the decision about each document, with the reason.
    has_ledger: bool = False
    dead_letters: str | None = None
    num_dead_letters: int = 0
    # Source tasks that an earlier run had completed; their counts are not in the table.
    resumed: int = 0
    # Only from an executor with a scheduler: its pools, every plan with its reason, and the peak of bytes in flight.
    pools: list[dict[str, Any]] | None = None
    plans: list[dict[str, Any]] | None = None
    peak_bytes: int | None = None
    budget_bytes: int | None = None
    # Items that failed in every attempt.
    failed: int | None = None
    # Why the run ended early; the outcome of the documents that were in flight is unknown then.
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
        """Print the totals to standard error."""
        console = stderr_console()
        with suppress(OSError):  # standard error was closed; the summary is also in the run folder
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
            # The noun is shown only where it changes.
            before = f"{c.items_in:,}" if c.noun_in == previous else plural(c.items_in, c.noun_in.removesuffix("s"))
            after = (
                f"{c.items_out:,}"
                if c.noun_out in ("", c.noun_in)
                else plural(c.items_out, c.noun_out.removesuffix("s"))
            )
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
            lines.append(f"The run was stopped before it was complete; {plural(read or 0, 'document')} had been read.")
        elif read is not None and not grew:  # if stages create documents, "kept" has no meaning
            by = "; ".join(f"{count:,} by {stage}" for stage, count in sorted(dropped.items(), key=lambda e: -e[1]))
            failed = sum(c.failed for c in self.counters if c.noun_in == "documents")
            kept = read - sum(dropped.values()) - failed
            share = f" ({kept / read:.1%})" if read else ""
            lines.append(f"Read {plural(read, 'document')}, kept {kept:,}{share}, dropped {sum(dropped.values()):,}"
                         + (f": {by}" if by else "") + (f", failed {failed:,}." if failed else "."))  # fmt: skip
        if self.resumed:
            lines.append(f"Resumed an earlier run: {plural(self.resumed, 'source task')} had been completed.")
        if not_read := self._not_read():
            lines.append(describe(not_read))
        if self.num_dead_letters:
            lines.append(
                f"Set aside {plural(self.num_dead_letters, 'record')}, with the reason for each: {self.dead_letters}"
            )
        if self.failed:
            lines.append(f"{plural(self.failed, 'item')} failed in every attempt.")
        if self.pools is not None and (sentence := self._scheduling_sentence()):
            lines.append(sentence)
        if self.output is not None:
            lines.append(f"Output: {self.output}   (this table as JSON: {self.run_folder}/summary.json)")
        if self.has_ledger:
            lines.append(
                f"Why a document was kept or dropped: penstock why {quote(self.output or self.run_folder or '')} DOC_ID"
            )
        return lines

    def _not_read(self) -> dict[str, int]:
        """Return the number of files that readers found and did not read, by reason."""
        found = (metric for counters in self.counters for metric in counters.metrics.items())
        return {name.removeprefix(NOT_READ): int(count) for name, count in found if name.startswith(NOT_READ)}

    def _scheduling_sentence(self) -> str:
        """Return one sentence about memory, plans and the bottleneck; empty if nothing is known."""
        parts = []
        if self.peak_bytes is not None:
            budget = f" of the {human_bytes(self.budget_bytes)} budget" if self.budget_bytes else ""
            parts.append(f"at most {human_bytes(self.peak_bytes)}{budget} was in flight")
        if self.plans is not None:
            applied = sum(bool(plan.get("applied", True)) for plan in self.plans)
            parts.append(f"{applied:,} plan{'' if applied == 1 else 's'}")
        if (slowest := self._bottleneck()) is not None:
            pool = next((pool for pool in self.pools or () if pool.get("name") == slowest), {})
            resource = f" on {pool['bound_by']}" if pool.get("bound_by") else ""
            parts.append(f"bound by '{slowest}'{resource}")
        sentence = "; ".join(parts)
        return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""

    def _bottleneck(self) -> str | None:
        """Return the pool that was the bottleneck for most of the run; the last plan describes only its end."""
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
