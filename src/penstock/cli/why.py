"""``penstock why``: explain why a document was kept or dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.options import debug_option
from penstock.cli.shown import echo, echo_json, shortened, shown_paths
from penstock.core.printable import printable, printable_lines
from penstock.core.sizes import plural
from penstock.monitor.console import stdout_console

if TYPE_CHECKING:
    from penstock.ledger.query.ledger import Ledger
    from penstock.ledger.query.receipts import Receipt
    from penstock.ledger.query.sampling import Sample

_STYLES = {"dropped": "bold red", "failed": "bold red", "would drop": "yellow", "kept": "green"}
_DEFAULT_SAMPLE = 20


@click.command("why")
@click.argument("run")
@click.argument("document", required=False, metavar="[DOC_ID]")
@click.option("--dropped-by", metavar="STAGE", help="Show documents that this stage dropped, with their text.")
@click.option("--kept", is_flag=True, help="Show documents that were kept, with their text.")
@click.option(
    "--sample", type=click.IntRange(1), default=_DEFAULT_SAMPLE, show_default=True, help="Number of documents to show."
)
@click.option(
    "--near",
    type=float,
    metavar="DISTANCE",
    help="Only documents whose score missed the threshold by at most this, closest first.",
)
@click.option(
    "--chars", type=click.IntRange(0), default=300, show_default=True, help="Characters of each text to show."
)
@click.option("--export", metavar="FOLDER", help="Write all receipts to this folder as Parquet files.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; for samples one object per line.")
@debug_option
def command(
    run: str,
    document: str | None,
    dropped_by: str | None,
    kept: bool,
    sample: int,
    near: float | None,
    chars: int,
    export: str | None,
    as_json: bool,
) -> None:
    """Show why a document was kept or dropped: score, threshold and verdict of each stage.

    RUN is the output folder of a run or of a deduplication. DOC_ID is the value of the id column (id, url, …), or
    FILE:ROW, with rows counted from 0 (after a deduplication of JSONL: the byte offset of the line). Without DOC_ID,
    the number of documents that each stage dropped is shown.

    \b
    Examples:
      penstock why clean/                                    counts per stage
      penstock why clean/ doc-00005                          one document
      penstock why clean/ crawl/part-3.jsonl:17              by file and row
      penstock why clean/ --dropped-by repeated_lines --sample 20
      penstock why clean/ --dropped-by word_count --near 5   narrow misses
      penstock why clean/ --kept --sample 5 --json
      penstock why clean/ --export receipts/                 all, as Parquet
    """
    from penstock.ledger.query.ledger import find_ledger

    asked = [document is not None, dropped_by is not None, kept, export is not None]
    if sum(asked) > 1:
        raise click.UsageError("DOC_ID, --dropped-by, --kept and --export exclude each other. Use one of them.")
    if near is not None and dropped_by is None:
        raise click.UsageError("--near needs --dropped-by: the distance is measured from the threshold of that stage.")
    ledger = find_ledger(_run_in(run))
    if document is not None:
        _show_document(ledger, document, chars, as_json=as_json)
    elif dropped_by is not None or kept:
        from penstock.ledger.query.sampling import dropped_sample, kept_sample

        found = dropped_sample(ledger, dropped_by, sample, near) if dropped_by else kept_sample(ledger, sample)
        _show_samples(ledger, found, chars, as_json=as_json)
    elif export is not None:
        from penstock.ledger.query.export import export_parquet

        documents, files = export_parquet(ledger, export)
        echo(f"Exported {plural(documents, 'document')} to {plural(files, 'Parquet file')}: {export}")
    else:
        _show_overview(ledger, as_json=as_json)


def _run_in(folder: str) -> str:
    """Return the output folder of a run; for a deduplication that is the subfolder ``deduplicated``."""
    from penstock.storage.filesystem import filesystem_of
    from penstock.storage.run_folder import FOLDER_NAME

    below = f"{folder.rstrip('/')}/deduplicated"
    filesystem, name = filesystem_of(f"{below}/{FOLDER_NAME}")
    return below if filesystem.exists(name) else folder


def _show_document(ledger: Ledger, document: str, chars: int, *, as_json: bool) -> None:
    from penstock.errors import InputError
    from penstock.ledger.query.dead_letters import dead_letters_at, failure_of
    from penstock.ledger.query.receipts import find_document, receipt_of

    letters = dead_letters_at(ledger.run_folder, document)
    try:
        receipts = [receipt_of(ledger, place) for place in find_document(ledger, document)]
    except InputError:
        if not letters:
            raise
        receipts = []
    for receipt in receipts:
        failure = failure_of(ledger.run_folder, receipt)
        text = _texts(ledger, [receipt])[0] if chars else None
        if as_json:
            echo_json({**asdict(receipt), "failure": failure, "text": text})
        else:
            _print_receipt(ledger, receipt, failure, text, chars)
    for letter in letters:
        if as_json:
            echo_json({"set_aside": letter})
        else:
            where = f"Line {letter['position']} of {letter['source']}"
            echo(f"{where} was set aside by '{letter['stage']}': {letter['reason']}")
            echo(f"  {printable(letter['excerpt'][:chars])}")


def _print_receipt(
    ledger: Ledger, receipt: Receipt, failure: dict[str, Any] | None, text: str | None, chars: int
) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = stdout_console()
    name = receipt.id if receipt.id is not None else f"{(receipt.files or ['?'])[0]}:{receipt.row}"
    fate = (
        f"dropped by {receipt.dropped_by}"
        if receipt.dropped_by
        else "kept"
        if receipt.kept
        else "transformed into other output"
    )
    console.print(
        Text.assemble((printable(str(name)), "bold"), ": ", (printable(fate), "red" if receipt.dropped_by else "green"))
    )
    console.print(
        Text(f"from  {shown_paths(receipt.files)}, {receipt.unit} {receipt.row}, {receipt.bytes:,} bytes of text")
    )
    if receipt.written_to:
        console.print(Text(f"to    {shown_paths(receipt.written_to)}"))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading, justify in (("stage", "left"), ("score", "right"), ("threshold", "left"), ("verdict", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for line in receipt.lines:
        threshold = ", ".join(f"{key}={value}" for key, value in line.threshold.items())
        score = "" if line.score is None else f"{line.score:.7g}"
        table.add_row(line.stage, score, threshold, Text(line.verdict, _STYLES.get(line.verdict, "dim")))
    console.print(table)
    for remark in receipt.remarks:
        console.print(Text(printable_lines(f"{remark[0].upper()}{remark[1:]}.")))
    if failure is not None:
        console.print(Text(printable_lines(f"It said: {failure['reason']}\n{failure['reproduce']}".strip())))
    if text is not None:
        console.print(Text(f"\n{shortened(text, chars)}"))


def _show_samples(ledger: Ledger, samples: Sequence[Sample], chars: int, *, as_json: bool) -> None:
    from rich.text import Text

    console = stdout_console()
    if not samples and not as_json:
        echo("No document matches.")
    for sample, text in zip(samples, _texts(ledger, samples), strict=True):
        if as_json:
            record = {
                "id": sample.id,
                "files": sample.files,
                "row": ledger.row_in_file(*sample.place),
                "score": sample.score,
            }
            echo_json({**record, "text": text})
            continue
        score = f"  score {sample.score:.7g}" if sample.score is not None else ""
        where = f"{shown_paths(sample.files)}:{ledger.row_in_file(*sample.place)}"
        console.print(Text.assemble((printable(sample.id or ""), "bold"), f"  {where}", (score, "yellow")))
        console.print(Text(shortened(text, chars), "dim"))
        console.print()


def _texts(ledger: Ledger, wanted: Sequence[Receipt | Sample]) -> list[str]:
    """Read the texts of documents from their source files; a file that is gone is reported in place of the text."""
    from penstock.ledger.query.source_texts import read_texts

    return read_texts(ledger, [one.place for one in wanted])


def _show_overview(ledger: Ledger, *, as_json: bool) -> None:
    from rich import box
    from rich.table import Table

    from penstock.ledger.query.overview import overview

    seen = overview(ledger)
    if as_json:
        echo_json(asdict(seen))
        return
    console = stdout_console()
    share = f" ({seen.kept / seen.documents:.1%})" if seen.documents else ""
    console.print(f"{plural(seen.documents, 'document')}, {seen.kept:,} kept{share}", highlight=False)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("stage")
    for heading in ("tested", "failed", "dropped", "of all", "only this stage"):
        table.add_column(heading, justify="right")
    for line in seen.stages:
        of_all = f"{line.dropped / seen.documents:.1%}" if seen.documents else ""
        table.add_row(line.stage, f"{line.asked:,}", f"{line.fails:,}", f"{line.dropped:,}", of_all, f"{line.alone:,}")
    console.print(table)
