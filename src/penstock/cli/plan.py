"""``penstock plan``: show what a recipe would do."""

from __future__ import annotations

import click

from penstock.cli.options import claim_options, debug_option, recipe_arguments
from penstock.cli.shown import echo


@click.command("plan")
@recipe_arguments
@claim_options
@debug_option
def command(
    recipe: str, overrides: tuple[str, ...], cpus: float | None, gpus: int | None, gpu_memory_gb: float | None
) -> None:
    """Show the plan of RECIPE without running it.

    A pool is a group of stages that share workers; the plan says which stages are in each, what a worker needs, why
    there is a border between two pools, and how many bytes to expect. Every mistake in the recipe is listed at once.

    \b
    Examples:
      penstock plan english-web input_path=crawl/ output_path=clean/
      penstock plan video.yaml --cpus 64 --gpus 8 --gpu-memory-gb 80
    """
    from penstock.executors.planning import plan_pipeline
    from penstock.plan.explain import explain
    from penstock.recipe.recipe import load_recipe
    from penstock.runtime.machine import this_machine

    loaded = load_recipe(recipe, overrides)
    echo(explain(plan_pipeline(loaded.pipeline, this_machine(cpus, gpus, gpu_memory_gb))))
