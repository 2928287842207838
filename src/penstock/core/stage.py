"""A stage: one step of a pipeline, written by the user, run by workers."""

from __future__ import annotations

import copy
import functools
import inspect
import typing
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from penstock.core.counters import PartCount
from penstock.core.files import SizedFile
from penstock.core.reporting import Reporting
from penstock.core.resources import Resources
from penstock.core.task import Task
from penstock.core.worker_info import NodeInfo, WorkerMetadata

X = TypeVar("X", bound=Task[Any])
Y = TypeVar("Y", bound=Task[Any])

# (attributes of the task, columns of its table) that a stage needs or adds.
Spec: TypeAlias = tuple[list[str], list[str]]

_UNSET: Any = object()
_PLAIN_ATTRIBUTES = ("name", "resources", "batch_size", "runtime_env")
_METHODS = ("num_workers", "num_workers_per_node")


class ProcessingStage(Reporting, Generic[X, Y]):
    """One step of a pipeline.

    Write ``process``; say in ``resources`` what one worker needs. Everything else has a default.

    >>> from penstock.core.documents import DocumentBatch
    >>> class Upper(ProcessingStage[DocumentBatch, DocumentBatch]):
    ...     name = "upper"
    ...     resources = Resources(cpus=0.5)
    ...
    ...     def process(self, task: DocumentBatch) -> DocumentBatch:
    ...         frame = task.to_pandas()
    ...         return DocumentBatch(task.dataset_name, frame.assign(text=frame["text"].str.upper()))
    >>> Upper().with_(resources=Resources(cpus=2)).resources.cpus
    2
    """

    name: str = "ProcessingStage"
    resources: Resources = Resources(cpus=1.0)
    batch_size: int = 1
    runtime_env: dict[str, Any] | None = None

    is_source_stage: ClassVar[bool] = False
    is_sink_stage: ClassVar[bool] = False
    is_resumable: ClassVar[bool] = True
    # True where every input must have arrived before any output can leave (a shuffle, a global sort).
    is_barrier: ClassVar[bool] = False
    # True where its tasks descend from nothing in front of it, which it only waits for: named as those of a source.
    begins_anew: ClassVar[bool] = False

    # Modules that the process from which local workers are forked imports in advance; None: those of all stages of
    # Penstock, and pandas.
    preload: ClassVar[tuple[str, ...] | None] = None
    # True if a worker process that has run this stage can run another one. Not inherited: each class declares it.
    reusable_process: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 - passed through as they are
        """Catch at the class statement what would otherwise fail in a worker, far away."""
        super().__init_subclass__(**kwargs)
        for attribute in _PLAIN_ATTRIBUTES:
            if isinstance(cls.__dict__.get(attribute), property):
                raise TypeError(
                    f"{cls.__name__}.{attribute} is a property, but with_() has to be able to replace it. "
                    f"Write it as a class attribute: {attribute} = …"
                )
        for method in _METHODS:
            defined = cls.__dict__.get(method)
            if method in inspect.get_annotations(cls) or (defined is not None and not callable(defined)):
                raise TypeError(f"{cls.__name__}.{method} must be a method: def {method}(self) -> int | None: …")
        if "name" not in cls.__dict__ and cls.name in ("ProcessingStage", "CompositeStage"):
            cls.name = cls.__name__

    # -- what a stage does ---------------------------------------------------------------------------------

    def process(self, task: X) -> Y | list[Y] | Iterator[Y] | None:
        """Turn one task into one, several or none.

        A list is held in memory as a whole; an iterator is not: each task it gives goes through the stages behind it
        in the same worker before the next one is asked for, which is how a file larger than memory is read.
        """
        raise NotImplementedError(f"stage '{self.name}' ({type(self).__name__}) defines no process(self, task).")

    def process_batch(self, tasks: list[X]) -> Sequence[Y | list[Y] | Iterator[Y] | None]:
        """Work on up to ``batch_size`` tasks at once.

        Results are matched to tasks by position when there are as many as tasks (a list or None may stand for
        one task); any other number is taken as made from all of them together.
        """
        return [self.process(task) for task in tasks]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Run once per node before any worker is set up there: download weights, build a cache."""

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Run once per worker: load a model, open a connection."""

    def teardown(self) -> None:
        """Run once when a worker ends cleanly."""

    # -- what a stage declares -----------------------------------------------------------------------------

    def inputs(self) -> Spec | dict[type[Task[Any]], Spec]:
        """Return which attributes and columns a task must have; a dictionary where that depends on its type."""
        return [], []

    def outputs(self) -> Spec:
        """Return which attributes and columns a task has afterwards that it need not have had before."""
        return [], []

    def num_workers(self) -> int | None:
        """Return a fixed number of workers; None: let the planner decide."""
        return None

    def num_workers_per_node(self) -> float | None:
        """Return a fixed number of workers per node; None: let the planner decide."""
        return None

    def xenna_stage_spec(self) -> dict[str, Any]:
        """Return settings for a streaming run, such as ``worker_max_lifetime_m``."""
        return {}

    def ray_stage_spec(self) -> dict[str, Any]:
        """Return settings for a Ray run, such as ``max_calls_per_worker``."""
        return {}

    def reads_from(self) -> list[str]:
        """Return the paths this stage reads, so that a plan can show them and compare them with the output."""
        return []

    def writes_to(self) -> str | None:
        """Return the folder this stage writes into, if it does."""
        return None

    def source_files(self) -> list[SizedFile] | None:
        """Return the files a source will read, with their sizes; None for a stage that is no such source."""
        return None

    def partition_files(self, files: Sequence[SizedFile]) -> list[list[SizedFile]]:
        """Return how those files would be grouped into tasks."""
        return [list(files)]

    def source_tasks(self, files: Sequence[SizedFile]) -> Sequence[Task[Any]]:
        """Return the tasks that a source gives for those files, not named yet; nothing for a stage that is not one."""
        return []

    def fit_to(self, memory_per_worker: float, memory_budget: int | None = None) -> None:
        """Be told, before the plan is made, how many bytes a worker has, and all of them between stages if bounded."""

    def know_origins(self, origins: Sequence[str]) -> None:
        """Learn where the documents of a run come from; called before ``before_run``.

        An origin is the folder that listed files are named from (see ``SizedFile.origin``); the last entry stands for
        everything that does not come from listed files. After the run there are none, so that the stage is as it was.
        """

    def before_run(self, *, resuming: bool) -> None:
        """Run once per run, on the driver, when the plan is good and no worker has started."""

    def validate_input(self, task: Task[Any]) -> bool:
        """Tell whether a task has what ``inputs`` asks for."""
        return not self.missing_from(task)

    def missing_from(self, task: Task[Any]) -> list[str]:
        """Return what this stage needs and the task lacks, attributes first."""
        attributes, columns = self.input_spec_for_task(type(task))
        # Every task has data; to look at it would make a table of a batch that has yet to be taken apart.
        missing = [attribute for attribute in attributes if attribute != "data" and not hasattr(task, attribute)]
        get_columns = getattr(task, "get_columns", None)
        if columns and get_columns is not None:
            present = set(get_columns())
            missing += [column for column in columns if column not in present]
        return missing

    def input_spec_for_task(self, task_type: Any) -> Spec:  # noqa: ANN401 - a class, or Any where none is stated
        """Return what is needed of that type of task; of several entries the most specific class wins."""
        declared = self.inputs()
        if not isinstance(declared, dict):
            return declared
        if not isinstance(task_type, type):
            task_type = type(task_type)
        return next((declared[cls] for cls in task_type.__mro__ if cls in declared), ([], []))

    def is_fanout_stage(self) -> bool:
        """Tell whether one task may become many: read from the return annotation of ``process``."""
        annotation = str(getattr(type(self).process, "__annotations__", {}).get("return", "")).lower()
        return "list" in annotation or "iterator" in annotation

    def task_types(self) -> tuple[Any, Any]:
        """Return the X and Y of ``ProcessingStage[X, Y]`` as the class states them; Any where it does not.

        >>> class Bare(ProcessingStage): ...
        >>> Bare().task_types()
        (typing.Any, typing.Any)
        """
        for cls in type(self).__mro__:
            for generic in getattr(cls, "__orig_bases__", ()):
                origin = typing.get_origin(generic)
                if isinstance(origin, type) and issubclass(origin, ProcessingStage):
                    given, made = typing.get_args(generic)
                    return _class_or_any(given), _class_or_any(made)
        return Any, Any

    def supports_batch_processing(self) -> bool:
        """Tell whether the stage brings a ``process_batch`` of its own."""
        return type(self).process_batch is not ProcessingStage.process_batch

    def get_config(self) -> dict[str, Any]:
        """Return the parameters the stage was made with, as far as its attributes show them."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    # -- changing a stage ----------------------------------------------------------------------------------

    def with_(
        self,
        name: str | None = None,
        resources: Resources | None = None,
        batch_size: int | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_stage_spec: dict[str, Any] | None = None,
        xenna_stage_spec: dict[str, Any] | None = None,
        num_workers: int | None = _UNSET,
        num_workers_per_node: float | None = _UNSET,
    ) -> typing.Self:
        """Return a copy with other settings; the stage itself stays as it was.

        The two specs are merged over the old ones. ``num_workers=None`` takes a fixed number back.
        """
        if xenna_stage_spec and "num_workers" in xenna_stage_spec:
            raise ValueError(
                f"stage '{self.name}': num_workers does not belong in xenna_stage_spec. Write with_(num_workers=…)."
            )
        changed = copy.deepcopy(self)
        plain = {"name": name, "resources": resources, "batch_size": batch_size, "runtime_env": runtime_env}
        for attribute, value in plain.items():
            if value is not None:
                setattr(changed, attribute, value)
        # Constants that pickle take the place of methods, so that a subclass's own definition gives way too.
        methods: dict[str, Any] = {
            "num_workers": num_workers,
            "num_workers_per_node": num_workers_per_node,
            "ray_stage_spec": {**self.ray_stage_spec(), **ray_stage_spec} if ray_stage_spec else _UNSET,
            "xenna_stage_spec": {**self.xenna_stage_spec(), **xenna_stage_spec} if xenna_stage_spec else _UNSET,
        }
        for method, constant in methods.items():
            if constant is not _UNSET:
                setattr(changed, method, functools.partial(_constant, constant))
        return changed

    def merge(self, next_stage: ProcessingStage[Any, Any]) -> ProcessingStage[Any, Any] | None:
        """Return one stage that does the work of both in one go, or None if there is nothing to gain.

        The merged stage lists both in ``parts`` and reports each of them in ``take_part_counts``.
        """
        return None

    def parts(self) -> list[ProcessingStage[Any, Any]]:
        """Return the stages a user wrote that this one stands for."""
        return [self]

    def decider(self) -> tuple[Any, bool] | None:
        """Return the object whose ``keep_document`` decides, and whether its verdict is turned around.

        None: the stage decides by itself, or not at all.
        """
        return None

    def take_part_counts(self) -> list[PartCount]:
        """Return what each part did since last asked; a stage of one part leaves that to the worker."""
        return []

    def __repr__(self) -> str:
        """Name the stage and what a worker of it needs."""
        return f"{type(self).__name__}(name={self.name!r}, {self.resources})"


def _constant(value: Any) -> Any:  # noqa: ANN401
    return value


def _class_or_any(annotation: Any) -> Any:  # noqa: ANN401
    origin = typing.get_origin(annotation) or annotation
    return origin if isinstance(origin, type) else Any
