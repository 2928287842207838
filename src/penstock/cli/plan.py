"""``penstock plan``: show the plan of a recipe."""

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

    The plan groups stages into pools; the stages of a pool share workers. It shows the stages of each pool, the
    resources of a worker, why two pools are separate, and the expected number of bytes. If the recipe has errors, all
    of them are listed.

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
