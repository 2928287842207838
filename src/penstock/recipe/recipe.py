"""Load a recipe: a pipeline or a workflow as YAML, with its executor, checkpoint and Ray client."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from penstock.backends.ray.client import RayClient
from penstock.compat.executors import RayActorPoolExecutor, RayDataExecutor, XennaExecutor
from penstock.core.executor import Executor
from penstock.core.pipeline import Pipeline
from penstock.core.stage import ProcessingStage
from penstock.core.workflow import WorkflowBase
from penstock.errors import RecipeError, suggestion
from penstock.executors.streaming import StreamingExecutor
from penstock.recipe.document import Document, read_document
from penstock.recipe.instantiate import instantiate
from penstock.recipe.override import apply_overrides
from penstock.recipe.variables import give_variables, missing_variables, resolve_variables

SETTINGS = frozenset(
    {
        "name",
        "description",
        "stages",
        "workflow",
        "executor",
        "backend",
        "execution_mode",
        "ray_client",
        "checkpoint_path",
    }
)
# Names for the key ``backend`` of a recipe, as an alternative to ``executor``.
_BACKENDS: Mapping[str, Callable[[dict[str, Any]], Executor]] = {
    "local": partial(StreamingExecutor, backend="local"),
    "ray": partial(StreamingExecutor, backend="ray"),
    "xenna": XennaExecutor,
    "ray_data": RayDataExecutor,
    "ray_actor_pool": RayActorPoolExecutor,
}


@dataclass(frozen=True)
class Recipe:
    """Hold the objects that a recipe describes."""

    job: Pipeline | WorkflowBase
    executor: Executor | None
    checkpoint_path: str | None
    source: str = ""
    # Starts a Ray cluster for the run, if the recipe asks for one.
    ray_client: RayClient | None = None

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline; RecipeError if the recipe describes a workflow."""
        if isinstance(self.job, Pipeline):
            return self.job
        raise RecipeError(
            f"{self.source}: describes a workflow ({type(self.job).__name__}), which is planned only when it runs. "
            f"Type: penstock run {self.source}"
        )

    def run(self, checkpoint_path: str | None = None, executor: Executor | None = None) -> None:
        """Run the pipeline or workflow, on a Ray cluster of its own if the recipe asks for one.

        Arguments take precedence over the values in the recipe.
        """
        checkpoint_path, executor = checkpoint_path or self.checkpoint_path, executor or self.executor
        with self.ray_client or nullcontext():
            if isinstance(self.job, Pipeline):
                self.job.run(executor, checkpoint_path=checkpoint_path)
            elif checkpoint_path:
                raise RecipeError(f"{self.source}: a workflow resumes without a checkpoint; leave the checkpoint out.")
            else:
                self.job.run(executor=executor)


def load_recipe(name: str, overrides: Sequence[str] = (), *, variables: Mapping[str, Any] | None = None) -> Recipe:
    """Load a recipe from a path, a URL or the name of a built-in recipe, and apply changes to it.

    ``variables`` maps variables of the recipe to Python values, which are used unchanged. ``overrides`` are strings of
    the form ``key=value``, whose values are parsed as YAML; they are applied last. Raises RecipeError if the recipe is
    invalid or a required variable is missing.
    """
    source = find_recipe(name)
    document = read_document(source)
    give_variables(document, variables or {})
    apply_overrides(document, overrides, SETTINGS)
    missing = missing_variables(document)
    if missing:
        arguments = " ".join(f"{key}=…" for key in missing)
        raise RecipeError(f"{source}: this recipe needs {', '.join(missing)}. Add to the command: {arguments}")
    return build_recipe(document)


def build_recipe(document: Document) -> Recipe:
    """Create the pipeline or workflow, the executor and the Ray client of a parsed recipe."""
    data = resolve_variables(document, SETTINGS)
    if ("workflow" in data) == ("stages" in data):
        raise RecipeError(
            f"{document.source}: a recipe has a list of 'stages', each with a _target_, or one 'workflow' with a "
            f"_target_; this one has {'both' if 'stages' in data else 'neither'}."
        )
    if "stages" in data and (not isinstance(data["stages"], list) or not data["stages"]):
        raise RecipeError(f"{document.source}: a recipe has a list of 'stages', each with a _target_.")
    if not document.is_remote:
        file = document.source.removeprefix("file://").removeprefix("local://")
        for folder in (str(Path(file).parent), "."):
            if folder not in sys.path:  # the user's own stages are next to the recipe, or in the current folder
                sys.path.append(folder)
    name = data.get("name") or Path(document.source).stem
    job: Pipeline | WorkflowBase
    if "workflow" in data:
        job = _workflow(data["workflow"], document)
    else:
        stages = [_stage(entry, document, position) for position, entry in enumerate(data["stages"])]
        job = Pipeline(str(name), data.get("description"), stages)
    ray_client = instantiate(data.get("ray_client"), document, ("ray_client",))
    if ray_client is not None and not isinstance(ray_client, RayClient):
        raise RecipeError(f"{document.where(('ray_client',))}: expected a _target_ that makes a RayClient.")
    return Recipe(job, _executor(data, document), data.get("checkpoint_path"), document.source, ray_client)


def _workflow(entry: Any, document: Document) -> WorkflowBase:  # noqa: ANN401 - YAML
    made = instantiate(entry, document, ("workflow",))
    if not isinstance(made, WorkflowBase):
        raise RecipeError(f"{document.where(('workflow',))}: a workflow is a mapping with a _target_ that makes one.")
    return made


def _executor(data: dict[str, Any], document: Document) -> Executor | None:
    executor: Executor | None = instantiate(data.get("executor"), document, ("executor",))
    backend, mode = data.get("backend"), data.get("execution_mode")
    if backend is None and mode is None:
        if executor is not None and not hasattr(executor, "execute"):
            raise RecipeError(f"{document.where(('executor',))}: expected a _target_ that makes an executor.")
        return executor
    where = document.where(("execution_mode" if backend is None else "backend",))
    if executor is not None:
        raise RecipeError(f"{where}: set either an executor, or a backend and its execution_mode, not both.")
    if backend is not None and backend not in _BACKENDS:
        known = f"there are {', '.join(sorted(_BACKENDS))}.{suggestion(backend, _BACKENDS)}"
        raise RecipeError(f"{where}: unknown backend '{backend}'; {known}")
    config = {} if mode is None else {"execution_mode": mode}
    return _BACKENDS[backend](config) if backend is not None else StreamingExecutor(config)


def _stage(entry: Any, document: Document, position: int) -> ProcessingStage[Any, Any]:  # noqa: ANN401 - YAML
    path = ("stages", position)
    if not isinstance(entry, dict) or "_target_" not in entry:
        raise RecipeError(f"{document.where(path)}: a stage is a mapping with a _target_, got {entry!r:.80}.")
    made = instantiate(entry, document, path)
    if not isinstance(made, ProcessingStage):
        raise RecipeError(f"{document.where(path)}: {entry['_target_']} is not a stage; it made {made!r:.80}.")
    return made


def find_recipe(name: str) -> str:
    """Return the path of a recipe, given its path, its URL or the name of a built-in recipe."""
    if "://" in name or Path(name).is_file():
        return name
    shipped = shipped_recipes()
    if name in shipped:
        return str(shipped[name])
    if name.endswith((".yaml", ".yml")):
        raise RecipeError(f"{name}: there is no such file.{suggestion(Path(name).stem, shipped)}")
    raise RecipeError(
        f"'{name}' is neither a file nor a recipe that comes with Penstock: {', '.join(sorted(shipped))}."
        f"{suggestion(name, shipped)}"
    )


def shipped_recipes() -> dict[str, Path]:
    """Return the recipes that come with Penstock, by name."""
    packaged = Path(str(files("penstock") / "recipes"))
    # In a checkout they are in the top folder; in a wheel they are inside the package.
    folder = packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
