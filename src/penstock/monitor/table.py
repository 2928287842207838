"""Render a snapshot of a run as a table that fits the terminal; less important columns and rows are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.core.printable import printable
from penstock.core.sizes import human_bytes
from penstock.core.snapshot import PoolSnapshot, RunSnapshot
from penstock.monitor.words import amount, duration, headline, held, percent

# Characters between two columns: a blank and an invisible line.
_GAP_CHARS = 2
# Names are shortened to this width before a column is left out; then 80 characters show every column.
_MIN_NAME_CHARS = 16
# The heading of the table, the line below it, and one line left free so that the terminal need not scroll.
_OTHER_LINES = 3


@dataclass(frozen=True)
class _Column:
    heading: str
    cell: Callable[[PoolSnapshot], str]
    # Minimum width in characters, so that the table does not change its width with the numbers.
    min_width: int


def _eta(pool: PoolSnapshot) -> str:
    if pool.remaining <= 0 and pool.done:
        return "done"
    if pool.eta_seconds is None:
        return "–"
    return "< 1 s" if pool.eta_seconds < 1 else duration(pool.eta_seconds)


_COLUMNS = (
    _Column("workers", lambda pool: f"{pool.ready}/{pool.wanted}", 7),
    _Column("done", lambda pool: f"{pool.done:,}", 7),
    _Column("items/s", lambda pool: amount(pool.items_per_second), 7),
    _Column("queue", lambda pool: f"{pool.queue:,}", 5),
    _Column("held", lambda pool: human_bytes(pool.held_bytes), 8),
    _Column("busy", lambda pool: percent(pool.busy), 5),
    _Column("ETA", _eta, 10),
)
# The order in which columns are left out on a narrow terminal.
_LEFT_OUT_IN_ORDER = ("held", "done", "ETA", "queue", "busy", "workers")


def screen(title: str, snapshot: RunSnapshot, console: Console) -> RenderableType:
    """Return everything that a terminal shows of a run, no larger than the terminal."""
    width, height = console.size
    above = Text.assemble((printable(title), "bold"), ": ", printable(headline(snapshot)))
    below = Text(" · ").join(_footer(snapshot))
    rows = height - _OTHER_LINES - len(above.wrap(console, width)) - len(below.wrap(console, width))
    shown = _most_relevant(snapshot, max(1, rows))
    table = _table(shown, snapshot.bottleneck, width)
    if len(shown) == len(snapshot.pools):
        return Group(above, table, below)
    more = Text(f"… and {len(snapshot.pools) - len(shown)} pools more", style="dim")
    return Group(above, table, more, below)


def _footer(snapshot: RunSnapshot) -> list[Text]:
    parts = [
        Text(held(snapshot)),
        Text(f"elapsed {duration(snapshot.elapsed)}"),
        Text(f"ETA {duration(snapshot.eta_seconds)}"),
    ]
    if snapshot.failed:
        parts.append(Text(f"{snapshot.failed:,} failed", style="bold red"))
    return parts


def _most_relevant(snapshot: RunSnapshot, rows: int) -> list[PoolSnapshot]:
    """Return the pools to show, in order. If there are too many: the bottleneck, then unfinished and busy pools."""
    pools = snapshot.pools
    if len(pools) <= rows:
        return list(pools)

    def relevance(index: int) -> tuple[bool, bool, float]:
        return pools[index].name == snapshot.bottleneck, pools[index].remaining > 0, pools[index].busy

    kept = sorted(range(len(pools)), key=relevance, reverse=True)[: max(1, rows - 1)]
    return [pools[index] for index in sorted(kept)]


def _table(pools: Sequence[PoolSnapshot], bottleneck: str | None, width: int) -> Table:
    longest = max(cell_len(text) for text in ("stages", *map(_label, pools)))
    columns = _columns_that_fit(pools, width - min(longest, _MIN_NAME_CHARS))
    name_width = max(1, width - sum(_GAP_CHARS + _width(column, pools) for column in columns))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("stages", no_wrap=True, overflow="ellipsis", max_width=name_width)
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True, min_width=column.min_width)
    for pool in pools:
        name = _label(pool) if longest <= name_width else _shortened(printable(pool.name), name_width)
        style = "bold" if pool.name == bottleneck else "dim" if _eta(pool) == "done" else ""
        table.add_row(Text(name), *(Text(column.cell(pool)) for column in columns), style=style)
    return table


def _label(pool: PoolSnapshot) -> str:
    name = printable(pool.name)
    return name if len(pool.stages) < 2 else f"{name} ({len(pool.stages)} stages)"


def _shortened(name: str, width: int) -> str:
    # Keep both ends: a pool is named after its first and its last stage.
    if cell_len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{name[: width - 1 - end].rstrip(' …')}…{name[len(name) - end :].lstrip(' …')}"


def _columns_that_fit(pools: Sequence[PoolSnapshot], width: int) -> list[_Column]:
    """Return the columns that fit into ``width`` characters."""
    columns = list(_COLUMNS)
    for heading in _LEFT_OUT_IN_ORDER:
        if sum(_GAP_CHARS + _width(column, pools) for column in columns) <= width:
            break
        columns = [column for column in columns if column.heading != heading]
    return columns


def _width(column: _Column, pools: Sequence[PoolSnapshot]) -> int:
    return max([column.min_width, *(cell_len(column.cell(pool)) for pool in pools)])
