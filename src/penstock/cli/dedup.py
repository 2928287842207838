"""``penstock dedup``: remove documents, or lines of them, that are there more than once."""

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
from penstock.core.sizes import parse_bytes
from penstock.errors import InputError, PlanError

if TYPE_CHECKING:
    from penstock.core.workflow import WorkflowRunResult

F = TypeVar("F", bound=Callable[..., Any])

_NAMES_LOOKED_AT = 100


@click.group("dedup")
def command() -> None:
    """Remove documents that are there more than once.

    OUTPUT/deduplicated gets the documents that stay, as they were read; a table beside it says which document went for
    which. A run that was stopped goes on where it was when the same command is typed again.

    \b
    Examples:
      penstock dedup exact crawl/ unique/
      penstock dedup fuzzy crawl/ unique/ --threshold 0.9 --keep longest
      penstock dedup urls crawl/ unique/
      penstock dedup lines crawl/ clean/
      penstock dedup fuzzy --help
    """


def reading_options(function: F) -> F:
    """Add what every kind of deduplication takes."""
    for option in reversed(
        [
            click.argument("input_path", metavar="INPUT"),
            click.argument("output_path", metavar="OUTPUT"),
            click.option(
                "--keep",
                multiple=True,
                metavar="RULE",
                help="Which of several stays: first (default), longest, best:COLUMN; or parts of file names, the most "
                "trusted first, each with a --keep of its own.",
            ),
            click.option("--memory-budget", metavar="SIZE", help="Such as 8GB.  [default: 40% of free memory]"),
            click.option("--blocksize", metavar="SIZE", help="How much is read at a time, such as 64MB."),
            click.option("--overwrite", is_flag=True, help="Replace what another input left in OUTPUT."),
            click.option("--cache", metavar="DIR", help="For what lies there meanwhile.  [default: inside OUTPUT]"),
            debug_option,
        ]
    ):
        function = option(function)
    return function


def text_option(function: F) -> F:
    """Add ``--text-field``."""
    return click.option("--text-field", default="text", show_default=True, help="The column or key with the text.")(
        function
    )


def document_options(function: F) -> F:
    """Add what is taken where whole documents go."""
    index = click.option("--index", metavar="DIR", help="Compare with what earlier runs kept, too, and add to it.")
    ids_only = click.option("--ids-only", is_flag=True, help="Write only the table of duplicates, remove nothing.")
    return index(ids_only(function))


def normalize_option(function: F) -> F:
    """Add ``--normalize-text``."""
    return click.option("--normalize-text", is_flag=True, help="Ignore Unicode form, case and white space.")(function)


@command.command("exact")
@reading_options
@text_option
@normalize_option
@document_options
def exact(**options: Any) -> None:  # noqa: ANN401 - those above
    """Keep one of the documents in INPUT that have the same text; write the result to OUTPUT.

    \b
    Examples:
      penstock dedup exact crawl/ unique/
      penstock dedup exact 's3://bucket/crawl/*.jsonl.gz' unique/ --text-field body --normalize-text
      penstock dedup exact crawl/ unique/ --keep wiki/ --keep web/     prefer what is in wiki/
    """
    _expect_plain_workers(options)
    from penstock.dedup import ExactDeduplicationWorkflow

    workflow = ExactDeduplicationWorkflow(**_settings(options))
    _say(workflow.run(), "Exact", options["output_path"], removed=workflow.perform_removal)


@command.command("fuzzy")
@reading_options
@text_option
@normalize_option
@document_options
@click.option("--threshold", default=0.8, show_default=True, help="Shingles in both over shingles in either.")
@click.option(
    "--verify",
    type=click.Choice(["shingles", "signature"]),
    default="shingles",
    show_default=True,
    help="Count shingles, or estimate from signatures, which is faster.",
)
@click.option("--char-ngrams", default=24, show_default=True, help="A shingle is so many characters.")
@click.option("--word-ngrams", type=int, help="A shingle is so many words instead.")
@click.option("--bands", default=20, show_default=True, help="Bands of a signature; equal in one: compared.")
@click.option("--hashes-per-band", default=13, show_default=True, help="Numbers in a band.")
@click.option("--bands-at-a-time", type=int, help="Bands looked at together.  [default: as many as fit]")
@click.option("--hash-bits", type=click.Choice(["32", "64"]), default="32", show_default=True)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--max-removed-share", default=0.95, show_default=True, help="Stop if a folder would lose more.")
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
    **options: Any,  # noqa: ANN401 - the shared ones
) -> None:
    """Keep one of the documents in INPUT that are nearly the same; write the result to OUTPUT.

    Documents that share a band of their MinHash signatures are compared. One goes only if its measured similarity to
    the document that stays is at least the threshold. Before anything is read, the memory it takes and the chance that
    a pair of some similarity is compared are shown.

    \b
    Examples:
      penstock dedup fuzzy crawl/ unique/
      penstock dedup fuzzy crawl/ unique/ --threshold 0.9 --keep best:quality
      penstock dedup fuzzy crawl-2/ unique-2/ --index index/     what is new since crawl-1/ was added
      penstock dedup fuzzy crawl/ unique/ --word-ngrams 5 --bands 14 --hashes-per-band 8 --memory-budget 4GB
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
    _say(workflow.run(), "Fuzzy", options["output_path"], removed=workflow.perform_removal)


@command.command("urls")
@reading_options
@click.option("--url-field", default="url", show_default=True, help="The column or key with the address.")
@document_options
def urls(**options: Any) -> None:  # noqa: ANN401 - those above
    """Keep one of the documents in INPUT that come from the same address; write the result to OUTPUT.

    Addresses are compared without scheme, www., fragment and tracking parameters; documents without one all stay.

    \b
    Examples:
      penstock dedup urls crawl/ unique/
      penstock dedup urls crawl/ unique/ --url-field source --keep best:crawl_date
    """
    _expect_plain_workers(options)
    from penstock.dedup import UrlDeduplicationWorkflow

    workflow = UrlDeduplicationWorkflow(**_settings(options))
    _say(workflow.run(), "Url", options["output_path"], removed=workflow.perform_removal)


@command.command("lines")
@reading_options
@text_option
@click.option("--paragraphs", is_flag=True, help="Paragraphs (between empty lines) instead of lines.")
@click.option("--max-documents", default=5, show_default=True, help="In more documents than this a line is cut.")
@click.option("--min-characters", default=20, show_default=True, help="Shorter lines always stay.")
@click.option("--across-only", is_flag=True, help="Leave alone what is repeated within one document.")
def lines(paragraphs: bool, max_documents: int, min_characters: int, across_only: bool, **options: Any) -> None:  # noqa: ANN401
    """Cut lines that many documents in INPUT have out of all of them but one; write the result to OUTPUT.

    A table beside it says what was cut out of which document, why, and where it stays.

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
    echo(f"Cut {result.get_metadata('num_cut'):,} {workflow.unit}s out of the documents.")
    echo(f"What was cut, and why: {result.get_metadata('receipts_path')}")


def _expect_plain_workers(options: dict[str, Any]) -> None:
    """Let workers begin to load. Those that hash whole texts of Parquet files need least; a look at names tells."""
    from penstock.storage.formats import PARQUET, ends_in

    path = options["input_path"]
    is_parquet = ends_in(path, PARQUET)
    with suppress(OSError), os.scandir(path) as entries:
        is_parquet = any(ends_in(entry.name, PARQUET) for entry in islice(entries, _NAMES_LOOKED_AT))
    expect_workers("penstock.dedup.preload_exact" if is_parquet else "penstock.dedup.preload")


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return what both workflows are made with."""
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


def _say(result: WorkflowRunResult, kind: str, output_path: str, *, removed: bool) -> None:
    """Say in words what came out, and where it is."""
    documents, duplicates, same = (
        int(result.get_metadata(name)) for name in ("num_documents", "num_duplicates", "num_exact_duplicates")
    )
    share = f" ({duplicates / documents:.1%})" if documents else ""
    similar = f": {same:,} with the same text, {duplicates - same:,} similar" if kind == "Fuzzy" and duplicates else ""
    echo(f"Of {documents:,} documents {duplicates:,} are duplicates of another{share}{similar}.")
    if removed:
        echo(f"Kept: {documents - duplicates:,}, in {output_path.rstrip('/')}/deduplicated")
    echo(f"Which went for which, and how similar they are: {output_path.rstrip('/')}/{kind}DuplicateIds")
