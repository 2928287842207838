"""``penstock curate``: read raw documents, filter them and write the rest."""

from __future__ import annotations

import click

from penstock.cli.options import checkpoint_option, debug_option, expect_workers, ledger_option, without_ledger
from penstock.core.sizes import plural
from penstock.errors import InputError, PlanError

DEFAULT_RECIPE = "english-web"


@click.command("curate")
@click.argument("input_path", metavar="INPUT")
@click.argument("output_path", metavar="OUTPUT")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--recipe", default=DEFAULT_RECIPE, show_default=True, help="Name of a recipe, or a YAML file.")
@click.option("--text-field", help="Column or key with the text.  [default: text]")
@click.option("--overwrite", is_flag=True, help="Replace the output of an earlier run.")
@checkpoint_option
@ledger_option
@debug_option
def command(
    input_path: str,
    output_path: str,
    overrides: tuple[str, ...],
    recipe: str,
    text_field: str | None,
    overwrite: bool,
    checkpoint: str | None,
    no_ledger: bool,
) -> None:
    """Read documents from INPUT, keep the good ones, write them to OUTPUT.

    INPUT is a file, a folder, a glob or a URL of JSONL or Parquet files. The output has the same format. The number of
    documents that each stage dropped is printed and stored in OUTPUT/_penstock. `penstock why OUTPUT DOC_ID` explains
    the decision for one document.

    \b
    Examples:
      penstock curate crawl/ clean/
      penstock curate 's3://bucket/crawl/*.jsonl.gz' clean/ --text-field body
      penstock curate crawl/ clean/ --overwrite stages.1.filter_obj.min_words=80
    """
    expect_workers()
    from penstock.recipe.recipe import load_recipe

    try:
        kind = detect_format(input_path)
    except InputError as error:
        raise PlanError("curate", [str(error)]) from error
    variables = {
        "input_path": input_path,
        "output_path": output_path,
        "reader": f"{kind}Reader",
        "writer": f"{kind}Writer",
        **({"text_field": text_field} if text_field else {}),
        **({"mode": "overwrite"} if overwrite else {}),
    }
    loaded = load_recipe(recipe, overrides, variables=variables)
    loaded.run(checkpoint, without_ledger(loaded.executor) if no_ledger else None)


def detect_format(input_path: str) -> str:
    """Return "Jsonl" or "Parquet", the format of the files under a path."""
    from penstock.storage.formats import JSONL, PARQUET, ends_in
    from penstock.storage.listing import list_files

    files = list_files(input_path, [*JSONL, *PARQUET]).files
    parquet = sum(ends_in(file.path, PARQUET) for file in files)
    if not parquet:
        return "Jsonl"
    # .json files next to Parquet files are metadata; the reader reports that it skips them.
    described = sum(ends_in(file.path, [".json"]) for file in files)
    jsonl = len(files) - parquet - described
    if jsonl:
        raise InputError(
            f"{input_path}: contains {plural(jsonl, 'JSONL file')} and {plural(parquet, 'Parquet file')}; "
            f"one run reads one format. Select it with a quoted pattern: '{input_path.rstrip('/')}/**/*.jsonl'."
        )
    return "Parquet"
