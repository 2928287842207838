"""``penstock whatif``: compute what other thresholds would have kept, without a new run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.options import debug_option
from penstock.cli.shown import echo_json, shared_folder, shortened, shown_paths
from penstock.core.printable import printable
from penstock.core.sizes import human_bytes, plural
from penstock.monitor.console import stdout_console

if TYPE_CHECKING:
    from penstock.ledger.query.ledger import Ledger
    from penstock.ledger.query.sampling import Sample
    from penstock.ledger.query.whatif import Outcome, Tally


# The sources that would change most are shown.
_MAX_SOURCES_SHOWN = 20


@click.command("whatif")
@click.argument("run")
@click.argument("changes", nargs=-1, required=True, metavar="FILTER.PARAMETER=VALUE...")
@click.option(
    "--examples", type=click.IntRange(0), default=3, show_default=True, help="Number of examples of each kind."
)
@click.option(
    "--chars", type=click.IntRange(0), default=200, show_default=True, help="Characters of each text to show."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@debug_option
def command(run: str, changes: tuple[str, ...], examples: int, chars: int, as_json: bool) -> None:
    """Show what RUN would have kept with other thresholds.

    RUN is the output folder of a run; `penstock why RUN` lists its filters. The answer is computed from the scores in
    the ledger of the run. Nothing is run or changed. A document is counted as unknown if a filter that would now see it
    has no stored score for it.

    \b
    Examples:
      penstock whatif clean/ word_count.min_words=80
      penstock whatif clean/ word_count.min_words=80 \\
        repeated_lines.max_repeated_line_fraction=0.6
      penstock whatif clean/ word_count.min_words=20 --examples 10 --chars 500
    """
    from penstock.ledger.query.ledger import find_ledger
    from penstock.ledger.query.whatif import parse_changes, what_if

    ledger = find_ledger(run)
    parsed = parse_changes(ledger, changes)
    outcome = what_if(ledger, parsed, examples)
    if as_json:
        _print_json(ledger, outcome, parsed)
        return
    console = stdout_console()
    for label, values in parsed.items():
        for name, value in values.items():
            console.print(f"{label}.{name}: {ledger.rules[label].parameters[name]} → {value}", highlight=False)
    _print_tables(outcome)
    _print_examples(ledger, "Would be kept", outcome.now_kept, chars)
    _print_examples(ledger, "Would be dropped", outcome.now_dropped, chars)


def _print_tables(outcome: Outcome) -> None:
    from rich import box
    from rich.table import Table

    console = stdout_console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("source", overflow="fold")
    for heading in ("documents", "kept", "would keep", "change", "bytes kept", "would keep", "unknown"):
        table.add_column(heading, justify="right", no_wrap=True)
    sources = sorted(outcome.sources.items(), key=lambda entry: -abs(entry[1].would_keep - entry[1].kept))
    shared = shared_folder(list(outcome.sources))
    for name, tally in sources[:_MAX_SOURCES_SHOWN] if len(sources) > 1 else []:
        table.add_row(name.removeprefix(shared), *_cells(tally))
    if len(sources) > _MAX_SOURCES_SHOWN:
        table.add_row(f"… and {len(sources) - _MAX_SOURCES_SHOWN} more", *[""] * 7)
    table.add_row("all", *_cells(outcome.total), style="bold")
    console.print(table)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("stage")
    for heading in ("dropped", "would drop", "change"):
        table.add_column(heading, justify="right")
    for label, (was, would) in outcome.dropped.items():
        table.add_row(label, f"{was:,}", f"{would:,}", f"{would - was:+,}" if would != was else "")
    console.print()
    console.print(table)
    if outcome.total.unknown:
        unknown = f"{plural(outcome.total.unknown, 'document')} ({human_bytes(outcome.total.unknown_bytes)})"
        console.print(
            f"Unknown: {unknown}. A stage that would now see them has no score for them; only a new run can decide."
        )


def _cells(tally: Tally) -> list[str]:
    return [
        f"{tally.documents:,}",
        f"{tally.kept:,}",
        f"{tally.would_keep:,}",
        f"{tally.would_keep - tally.kept:+,}",
        human_bytes(tally.kept_bytes),
        human_bytes(tally.would_keep_bytes),
        f"{tally.unknown:,}" if tally.unknown else "",
    ]


def _print_examples(ledger: Ledger, title: str, drawn: Sequence[Sample], chars: int) -> None:
    from rich.text import Text

    from penstock.ledger.query.source_texts import read_texts

    if not drawn:
        return
    console = stdout_console()
    console.print(f"\n{title}, for example:", highlight=False)
    texts = read_texts(ledger, [one.place for one in drawn])
    for one, text in zip(drawn, texts, strict=True):
        where = f"{shown_paths(one.files)}:{ledger.row_in_file(*one.place)}"
        console.print(Text.assemble("  ", (printable(one.id or ""), "bold"), f"  {where}"))
        console.print(Text(f"    {shortened(text, chars)}", "dim"))


def _print_json(ledger: Ledger, outcome: Outcome, changes: dict[str, dict[str, object]]) -> None:
    from penstock.ledger.query.source_texts import read_texts

    record: dict[str, object] = {
        "changes": changes,
        "total": asdict(outcome.total),
        "sources": {name: asdict(tally) for name, tally in outcome.sources.items()},
        "dropped": {label: {"was": was, "would": would} for label, (was, would) in outcome.dropped.items()},
    }
    for key, drawn in (("now_kept", outcome.now_kept), ("now_dropped", outcome.now_dropped)):
        texts = read_texts(ledger, [one.place for one in drawn])
        record[key] = [
            {"id": one.id, "files": one.files, "row": ledger.row_in_file(*one.place), "text": text}
            for one, text in zip(drawn, texts, strict=True)
        ]
    echo_json(record)
