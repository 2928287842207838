"""Check a pipeline before it runs, and list all mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.core.cluster import Cluster
from penstock.core.composite import CompositeStage
from penstock.core.paths import one_holds_the_other
from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage
from penstock.core.task import EmptyTask, Task
from penstock.errors import suggestion
from penstock.plan.task_kinds import fits, kind_name, kinds_of

Stages = Sequence[ProcessingStage[Any, Any]]


def check(
    stages: Stages,
    cluster: Cluster,
    initial_tasks: Sequence[Task[Any]] | None = None,
    *,
    with_checkpoint: bool = False,
) -> list[str]:
    """Return every mistake as a sentence that names the stage and says what to do; an empty list if there is none."""
    return [
        *_each_stage(stages),
        *_placement(stages, cluster),
        *_roles(stages, with_checkpoint=with_checkpoint),
        *_kinds(stages, initial_tasks),
        *_columns(stages, initial_tasks),
        *_paths(stages),
    ]


def _each_stage(stages: Stages) -> Iterator[str]:
    for stage in stages:
        if _overrides_nothing(stage):
            yield f"stage '{stage.name}' ({type(stage).__name__}) defines neither process nor process_batch"
        if not isinstance(stage.name, str) or not stage.name:
            yield f"a {type(stage).__name__} has the name {stage.name!r}; a name is a non-empty string"
        if isinstance(stage.batch_size, bool) or not isinstance(stage.batch_size, int) or stage.batch_size < 1:
            yield f"stage '{stage.name}' has batch_size={stage.batch_size!r}; it is a whole number of tasks, 1 or more"
        workers = stage.num_workers()
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            yield f"stage '{stage.name}' asks for {workers!r} workers; ask for at least 1, or leave it to the planner"


def _overrides_nothing(stage: ProcessingStage[Any, Any]) -> bool:
    if isinstance(stage, CompositeStage):
        return False
    return type(stage).process is ProcessingStage.process and not stage.supports_batch_processing()


def _placement(stages: Stages, cluster: Cluster) -> Iterator[str]:
    for stage in stages:
        if not isinstance(stage.resources, Resources):
            yield f"stage '{stage.name}' has resources={stage.resources!r}; write Resources(cpus=…, gpus=…)"
        elif (reason := cluster.why_not(stage.resources)) is not None:
            yield f"one worker of stage '{stage.name}' needs {stage.resources}, which fits nowhere: {reason}"


def _roles(stages: Stages, *, with_checkpoint: bool) -> Iterator[str]:
    for role, attribute in (("source", "is_source_stage"), ("sink", "is_sink_stage")):
        claimed = [stage.name for stage in stages if getattr(stage, attribute)]
        if len(claimed) > 1:
            yield f"{len(claimed)} stages say they are the {role}: {', '.join(claimed)}; a pipeline has one"
    if with_checkpoint:
        for stage in stages:
            if not stage.is_resumable:
                yield f"stage '{stage.name}' cannot be resumed (is_resumable=False); run without checkpoint_path"


def _kinds(stages: Stages, initial_tasks: Sequence[Task[Any]] | None) -> Iterator[str]:
    given: tuple[type, ...] | None
    given = (EmptyTask,) if initial_tasks is None else tuple({type(task) for task in initial_tasks})
    giver = ""
    for stage in stages:
        takes, makes = (kinds_of(kind) for kind in stage.task_types())
        if not fits(given, takes):
            wanted = kind_name(takes)
            if giver:
                yield f"stage '{stage.name}' takes {wanted}, but '{giver}' before it emits {kind_name(given)}"
            elif initial_tasks is None:
                yield (
                    f"the first stage '{stage.name}' takes {wanted}, but nothing comes before it; "
                    "begin with a reader, or pass initial_tasks to run()"
                )
            else:
                yield f"the first stage '{stage.name}' takes {wanted}, but initial_tasks are {kind_name(given)}"
        given, giver = makes, stage.name


def _columns(stages: Stages, initial_tasks: Sequence[Task[Any]] | None) -> Iterator[str]:
    if not any(stage.input_spec_for_task(stage.task_types()[0])[1] for stage in stages):
        return  # no stage needs a column, and there may be very many tasks
    known = _initial_columns(initial_tasks)
    for stage in stages:
        _, needed = stage.input_spec_for_task(stage.task_types()[0])
        for column in needed:
            if known is not None and column not in known:
                have = ", ".join(f"'{name}'" for name in sorted(known)) or "none"
                yield (
                    f"stage '{stage.name}' needs column '{column}', but the columns known before it are "
                    f"{have}.{suggestion(column, known)}"
                )
        known = _columns_after(stage, known)


def _initial_columns(initial_tasks: Sequence[Task[Any]] | None) -> set[str] | None:
    tables = [task.get_columns() for task in initial_tasks or () if hasattr(task, "get_columns")]
    return set.intersection(*map(set, tables)) if tables else None


def _columns_after(stage: ProcessingStage[Any, Any], known: set[str] | None) -> set[str] | None:
    """Return the columns known after a stage; None where they are unknown, as after a reader of all fields."""
    takes = kinds_of(stage.task_types()[0])
    added = set(stage.outputs()[1])
    if takes is None or Task in takes:
        return None
    if type(stage).outputs is ProcessingStage.outputs:
        return None  # it declares nothing, so it may add anything
    if not any(hasattr(kind, "get_columns") for kind in takes):
        return added or None
    return None if known is None else known | added


def _paths(stages: Stages) -> Iterator[str]:
    read = [(path, stage.name) for stage in stages for path in stage.reads_from()]
    for stage in stages:
        target = stage.writes_to()
        for path, reader in read if target is not None else ():
            if one_holds_the_other(path, target or ""):
                yield say_overlap(stage.name, target or "", reader)
                break


def say_overlap(writer: str, target: str, reader: str) -> str:
    """Return the message for an output folder that overlaps an input folder."""
    return f"stage '{writer}' writes into {target}, which '{reader}' reads from; give the output a folder of its own"
