"""``penstock dedup``: remove duplicate documents, near-duplicates, or repeated lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.curate import detect_format
from penstock.cli.options import debug_option, expect_workers
from penstock.cli.shown import echo
from penstock.core.sizes import parse_bytes, plural
from penstock.errors import InputError, PlanError

if TYPE_CHECKING:
    from penstock.core.workflow import WorkflowRunResult

F = TypeVar("F", bound=Callable[..., Any])

_MAX_NAMES_CHECKED = 100


@click.group("dedup")
def command() -> None:
    """Remove duplicate documents, near-duplicates, or repeated lines.

    The documents that are kept are written to OUTPUT/deduplicated, unchanged. A table next to it lists each removed
    document with the document kept in its place. To resume an interrupted run, type the same command again.

    \b
    Examples:
      penstock dedup exact crawl/ unique/    documents with the same text
      penstock dedup fuzzy crawl/ unique/    near-duplicates
      penstock dedup urls crawl/ unique/     documents from the same URL
      penstock dedup lines crawl/ clean/     lines that many documents share
      penstock dedup fuzzy --help            options and more examples
    """


def reading_options(function: F) -> F:
    """Add the arguments and options that every kind of deduplication has."""
    for option in reversed(
        [
            click.argument("input_path", metavar="INPUT"),
            click.argument("output_path", metavar="OUTPUT"),
            click.option(
                "--keep",
                multiple=True,
                metavar="RULE",
                help="Which duplicate to keep: first (default), longest or best:COLUMN (highest value). Or part of a "
                "file name; repeat --keep, most trusted source first.",
            ),
            click.option(
                "--memory-budget", metavar="SIZE", help="Memory to use, such as 8GB.  [default: 40% of free memory]"
            ),
            click.option("--blocksize", metavar="SIZE", help="Size of one read, such as 64MB."),
            click.option("--overwrite", is_flag=True, help="Replace the result of another input in OUTPUT."),
            click.option("--cache", metavar="DIR", help="Folder for intermediate files.  [default: inside OUTPUT]"),
            debug_option,
        ]
    ):
        function = option(function)
    return function


def text_option(function: F) -> F:
    """Add ``--text-field``."""
    return click.option("--text-field", default="text", show_default=True, help="Column or key with the text.")(
        function
    )


def document_options(function: F) -> F:
    """Add the options of deduplications that remove whole documents."""
    index = click.option(
        "--index",
        metavar="DIR",
        help="Also compare with documents of earlier runs in this index; add this run's documents to it.",
    )
    ids_only = click.option("--ids-only", is_flag=True, help="Only write the table of duplicates; remove nothing.")
    return index(ids_only(function))


def normalize_option(function: F) -> F:
    """Add ``--normalize-text``."""
    return click.option(
        "--normalize-text", is_flag=True, help="Ignore differences in Unicode form, case and white space."
    )(function)


@command.command("exact")
@reading_options
@text_option
@normalize_option
@document_options
def exact(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Remove documents with the same text: read INPUT, write to OUTPUT.

    \b
    Examples:
      penstock dedup exact crawl/ unique/
      penstock dedup exact 's3://bucket/crawl/*.jsonl.gz' unique/ --text-field body
      penstock dedup exact crawl/ unique/ --normalize-text
      penstock dedup exact crawl/ unique/ --keep wiki/ --keep web/   prefer wiki/
    """
    _expect_plain_workers(options)
    from penstock.dedup import ExactDeduplicationWorkflow

    workflow = ExactDeduplicationWorkflow(**_settings(options))
    _print_result(workflow.run(), "Exact", options["output_path"], removed=workflow.perform_removal)


@command.command("fuzzy")
@reading_options
@text_option
@normalize_option
@document_options
@click.option(
    "--threshold",
    default=0.8,
    show_default=True,
    help="Jaccard similarity of the shingle sets from which a document is a near-duplicate.",
)
@click.option(
    "--verify",
    type=click.Choice(["shingles", "signature"]),
    default="shingles",
    show_default=True,
    help="Measure similarity on the shingles, or estimate it from the signatures (faster).",
)
@click.option("--char-ngrams", default=24, show_default=True, help="Characters per shingle.")
@click.option("--word-ngrams", type=int, help="Words per shingle, instead of characters.")
@click.option(
    "--bands", default=20, show_default=True, help="Bands per signature. Documents that share a band are compared."
)
@click.option("--hashes-per-band", default=13, show_default=True, help="MinHash values per band.")
@click.option("--bands-at-a-time", type=int, help="Bands processed together.  [default: as many as fit in memory]")
@click.option(
    "--hash-bits", type=click.Choice(["32", "64"]), default="32", show_default=True, help="Bits per MinHash value."
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where signatures are computed.",
)
@click.option(
    "--max-removed-share",
    default=0.95,
    show_default=True,
    help="Stop if a folder would lose a larger share of its documents.",
)
def fuzzy(
    threshold: float,
    verify: str,
    char_ngrams: int,
    word_ngrams: int | None,
    bands: int,
    hashes_per_band: int,
    bands_at_a_time: int | None,
    hash_bits: str,
    device: str,
    max_removed_share: float,
    **options: Any,  # noqa: ANN401 - the shared options
) -> None:
    """Remove near-duplicates: read INPUT, write to OUTPUT.

    Documents that share a band of their MinHash signatures are compared. A document is removed only if its similarity
    to the document kept in its place is at least the threshold. The memory needed, and the probability that a pair of
    a given similarity is compared, are printed before anything is read.

    \b
    Examples:
      penstock dedup fuzzy crawl/ unique/
      penstock dedup fuzzy crawl/ unique/ --threshold 0.9 --keep best:quality
      penstock dedup fuzzy crawl-2/ unique-2/ --index index/   crawl after crawl
      penstock dedup fuzzy crawl/ unique/ --word-ngrams 5 --memory-budget 4GB
    """
    expect_workers("penstock.dedup.preload")
    from penstock.dedup import FuzzyDeduplicationWorkflow
    from penstock.dedup.work_folder import INSIDE_OUTPUT

    settings = _settings(options)
    settings["cache_path"] = settings["cache_path"] or f"{options['output_path'].rstrip('/')}/{INSIDE_OUTPUT}"
    try:
        workflow = FuzzyDeduplicationWorkflow(
            similarity_threshold=threshold,
            verify=verify,
            char_ngrams=char_ngrams,
            word_ngrams=word_ngrams,
            num_bands=bands,
            minhashes_per_band=hashes_per_band,
            bands_per_iteration=bands_at_a_time,
            use_64_bit_hash=hash_bits == "64",
            device=device,
            max_removed_share=max_removed_share,
            **settings,
        )
    except ValueError as error:
        raise PlanError("dedup fuzzy", [str(error)]) from error
    _print_result(workflow.run(), "Fuzzy", options["output_path"], removed=workflow.perform_removal)


@command.command("urls")
@reading_options
@click.option("--url-field", default="url", show_default=True, help="Column or key with the URL.")
@document_options
def urls(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Remove documents that come from the same URL: read INPUT, write to OUTPUT.

    URLs are compared without scheme, www., fragment and tracking parameters. Documents without a URL are kept.

    \b
    Examples:
      penstock dedup urls crawl/ unique/
      penstock dedup urls crawl/ unique/ --url-field source --keep best:crawl_date
    """
    _expect_plain_workers(options)
    from penstock.dedup import UrlDeduplicationWorkflow

    workflow = UrlDeduplicationWorkflow(**_settings(options))
    _print_result(workflow.run(), "Url", options["output_path"], removed=workflow.perform_removal)


@command.command("lines")
@reading_options
@text_option
@click.option("--paragraphs", is_flag=True, help="Compare paragraphs (separated by empty lines) instead of lines.")
@click.option("--max-documents", default=5, show_default=True, help="Cut a line found in more documents than this.")
@click.option("--min-characters", default=20, show_default=True, help="Never cut lines shorter than this.")
@click.option("--across-only", is_flag=True, help="Keep lines that are repeated within one document only.")
def lines(paragraphs: bool, max_documents: int, min_characters: int, across_only: bool, **options: Any) -> None:  # noqa: ANN401
    """Cut lines that many documents share: read INPUT, write to OUTPUT.

    Each such line is kept in one document. A table next to the output lists every line that was cut, the reason, and
    the document that keeps it.

    \b
    Examples:
      penstock dedup lines crawl/ clean/
      penstock dedup lines crawl/ clean/ --max-documents 100 --paragraphs
    """
    expect_workers("penstock.dedup.preload")
    from penstock.dedup import LineDeduplicationWorkflow

    workflow = LineDeduplicationWorkflow(
        unit="paragraph" if paragraphs else "line",
        max_documents=max_documents,
        min_characters=min_characters,
        within=not across_only,
        **_settings(options),
    )
    result = workflow.run()
    echo(f"Cut {plural(result.get_metadata('num_cut'), workflow.unit)} out of the documents.")
    echo(f"Table of what was cut and why: {result.get_metadata('receipts_path')}")


def _expect_plain_workers(options: dict[str, Any]) -> None:
    """Start loading worker processes; for Parquet input (judged by file names) they need Arrow only."""
    from penstock.storage.formats import PARQUET, ends_in

    path = options["input_path"]
    is_parquet = ends_in(path, PARQUET)
    with suppress(OSError), os.scandir(path) as entries:
        is_parquet = any(ends_in(entry.name, PARQUET) for entry in islice(entries, _MAX_NAMES_CHECKED))
    expect_workers("penstock.dedup.preload_exact" if is_parquet else "penstock.dedup.preload")


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the workflow parameters for these command line options."""
    try:
        kind = detect_format(options["input_path"]).lower()
        memory_budget = parse_bytes(options["memory_budget"]) if options["memory_budget"] else None
    except (InputError, ValueError) as error:
        raise PlanError("dedup", [str(error)]) from error
    keep = list(options["keep"]) or ["first"]
    is_rule = len(keep) == 1 and (keep[0] in ("first", "longest") or keep[0].startswith("best:"))
    settings = {
        "input_path": options["input_path"],
        "output_path": options["output_path"],
        "input_filetype": kind,
        "input_blocksize": options["blocksize"],
        "keep": keep[0] if is_rule else keep,
        "memory_budget": memory_budget,
        "cache_path": options["cache"],
        "overwrite": options["overwrite"],
    }
    settings |= {name: options[name] for name in ("text_field", "url_field", "normalize_text") if name in options}
    if "ids_only" in options:
        settings |= {"index_path": options["index"], "perform_removal": not options["ids_only"]}
    return settings


def _print_result(result: WorkflowRunResult, kind: str, output_path: str, *, removed: bool) -> None:
    """Print the number of duplicates and where the results are stored."""
    documents, duplicates, same = (
        int(result.get_metadata(name)) for name in ("num_documents", "num_duplicates", "num_exact_duplicates")
    )
    share = f" ({duplicates / documents:.1%})" if documents else ""
    similar = f": {same:,} with the same text, {duplicates - same:,} similar" if kind == "Fuzzy" and duplicates else ""
    echo(f"Found {plural(duplicates, 'duplicate')} in {plural(documents, 'document')}{share}{similar}.")
    if removed:
        echo(f"Kept {plural(documents - duplicates, 'document')}: {output_path.rstrip('/')}/deduplicated")
    echo(f"Table of duplicates and their similarity: {output_path.rstrip('/')}/{kind}DuplicateIds")
