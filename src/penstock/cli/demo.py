"""``penstock demo``: generate a sample corpus and curate it."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.options import debug_option, expect_workers
from penstock.cli.shown import echo
from penstock.core.sizes import plural

DEFAULT_FOLDER = "penstock-demo"


@click.command("demo")
@click.argument("folder", default=DEFAULT_FOLDER, type=click.Path(file_okay=False, path_type=Path))
@debug_option
def command(folder: Path) -> None:
    """Generate a small sample in FOLDER and curate it.

    Needs no network access. The sample is written to FOLDER/input, the result to FOLDER/output.

    \b
    Examples:
      penstock demo
      penstock demo /some/folder
    """
    expect_workers()
    from penstock.cli.curate import DEFAULT_RECIPE
    from penstock.cli.sample_corpus import make_sample
    from penstock.recipe.recipe import load_recipe

    source, target = folder / "input", folder / "output"
    planted = make_sample(source)
    echo(f"Generated {plural(sum(planted.values()), 'line')} in {source}:")
    echo("  " + ", ".join(f"{count:,} {kind}" for kind, count in planted.most_common()))
    echo(f"\n$ penstock curate {source} {target} --overwrite\n")
    variables = {"input_path": str(source), "output_path": str(target), "mode": "overwrite"}
    load_recipe(DEFAULT_RECIPE, variables=variables).pipeline.run()
    echo("\nNext steps:")
    echo(f"  head -n 2 {target}/*.jsonl                      documents that were kept")
    echo(f"  cat {target}/_penstock/dead_letters.jsonl       lines that could not be read, and why")
    echo(f"  penstock why {target} --dropped-by repeated_lines       documents that a stage dropped")
    echo(f"  penstock whatif {target} word_count.min_words=80        what another threshold would have kept")
    echo(f"  penstock plan {DEFAULT_RECIPE} input_path={source} output_path=clean    the plan of this run")
