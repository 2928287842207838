"""``penstock run``: run a pipeline or a workflow written as YAML."""

from __future__ import annotations

import click

from penstock.cli.options import (
    checkpoint_option,
    debug_option,
    expect_workers,
    ledger_option,
    recipe_arguments,
    without_ledger,
)


@click.command("run")
@recipe_arguments
@checkpoint_option
@ledger_option
@debug_option
def command(recipe: str, overrides: tuple[str, ...], checkpoint: str | None, no_ledger: bool) -> None:
    """Run RECIPE, a YAML file or the name of a built-in recipe.

    KEY=VALUE sets a variable of the recipe, or any value in it by its dotted path.

    \b
    Examples:
      penstock run recipe.yaml
      penstock run english-web input_path=crawl/ output_path=clean/
      penstock run recipe.yaml stages.1.filter_obj.min_words=80 mode=overwrite
      penstock run recipe.yaml ray_client.num_gpus=4   GPUs of its Ray cluster
      penstock run recipe.yaml --checkpoint state/     can be resumed
      penstock run fuzzy-dedup input_path=crawl/ output_path=unique/
    """
    expect_workers()
    from penstock.recipe.recipe import load_recipe

    loaded = load_recipe(recipe, overrides)
    loaded.run(checkpoint, without_ledger(loaded.executor) if no_ledger else None)
