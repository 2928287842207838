"""``penstock preview``: estimate from a sample what a recipe keeps and how long it takes."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.curate import DEFAULT_RECIPE, detect_format
from penstock.cli.options import debug_option
from penstock.cli.shown import echo, echo_json
from penstock.core.sizes import human_bytes, plural
from penstock.errors import InputError, PlanError
from penstock.monitor.console import stdout_console

if TYPE_CHECKING:
    from penstock.preview.estimate import Preview


@click.command("preview")
@click.argument("input_path", metavar="INPUT")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--recipe", default=DEFAULT_RECIPE, show_default=True, help="Name of a recipe, or a YAML file.")
@click.option("-n", "--documents", type=click.IntRange(1), default=2000, show_default=True, help="Size of the sample.")
@click.option("--text-field", help="Column or key with the text.  [default: text]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@debug_option
def command(
    input_path: str, overrides: tuple[str, ...], recipe: str, documents: int, text_field: str | None, as_json: bool
) -> None:
    """Estimate from a sample of INPUT what a recipe keeps and how long it takes.

    The sample is drawn from many places of the input, the same ones every time. The report shows the share of
    documents that each stage drops (with a 95% confidence interval), the speed, the expected time for the whole input
    on this machine, and stages with suspicious results. Only the sample is read, and nothing is written.

    \b
    Examples:
      penstock preview crawl/
      penstock preview crawl/ --recipe gopher -n 10000
      penstock preview crawl/ stages.1.filter_obj.min_words=80
    """
    from penstock.preview.preview import preview_recipe
    from penstock.storage.formats import JSONL, PARQUET
    from penstock.storage.listing import describe, list_files
    from penstock.storage.owned_folders import make_owned_folder

    try:
        kind = detect_format(input_path)
        listing = list_files(input_path, PARQUET if kind == "Parquet" else JSONL)
    except InputError as error:
        raise PlanError("preview", [str(error)]) from error
    if listing.not_read:
        echo(f"{input_path}: {describe(listing.notes())}", err=True)
    variables = {"text_field": text_field} if text_field else {}
    folder = make_owned_folder("preview")
    try:
        found = preview_recipe(folder, listing.files, kind, recipe, overrides, documents, variables)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        echo_json(asdict(found))
    else:
        _print(found, input_path)


def _print(preview: Preview, input_path: str) -> None:
    from rich import box
    from rich.table import Table

    from penstock.monitor.words import duration

    console = stdout_console()
    console.print(
        f"{input_path}: {plural(preview.files, 'file')}, {human_bytes(preview.bytes)}; "
        f"sampled {plural(preview.documents, 'document')} from {plural(preview.places, 'place')}",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("stage")
    for heading in ("seen", "dropped", "dropped %", "95 % interval", "time"):
        table.add_column(heading, justify="right")
    total = sum(stage.seconds for stage in preview.stages) or 1.0
    for stage in preview.stages:
        bounds = f"{stage.share.low:.1%} to {stage.share.high:.1%}" if stage.seen else ""
        share = f"{stage.share.value:.1%}" if stage.seen else ""
        table.add_row(
            stage.stage, f"{stage.seen:,}", f"{stage.dropped:,}", share, bounds, f"{stage.seconds / total:.0%}"
        )
    console.print(table)
    kept = preview.kept
    low, high = (round(preview.expected_documents * bound) for bound in (kept.low, kept.high))
    lines = [
        f"Will keep {kept.value:.1%} ({kept.low:.1%} to {kept.high:.1%}) of about {preview.expected_documents:,} "
        f"documents: {low:,} to {high:,}, {preview.kept_bytes:.0%} of the text.",
        f"{human_bytes(round(preview.bytes_per_core_second))}/s on one core; on the {preview.cores:g} cores here the "
        f"whole will take {'about ' if preview.eta_seconds >= 1 else ''}{duration(preview.eta_seconds)}.",
    ]
    if kept.effective < preview.documents / 2:
        lines.append(
            "Neighbouring documents resemble each other in this input: the sample is worth "
            f"{kept.effective:,.0f} independently drawn documents. A larger -n narrows the interval."
        )
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
    for sentence in preview.suspicious:
        console.print(f"Warning: {sentence}", highlight=False, soft_wrap=True, style="yellow", markup=False)
