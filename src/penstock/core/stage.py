"""A stage: one step of a pipeline, written by the user, run by workers."""

from __future__ import annotations

import copy
import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from penstock.core.counters import PartCount
from penstock.core.files import SizedFile
from penstock.core.reporting import Reporting
from penstock.core.resources import Resources
from penstock.core.task import Task
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import suggestion

X = TypeVar("X", bound=Task[Any])
Y = TypeVar("Y", bound=Task[Any])

# The attributes of the task and the columns of its table that a stage needs or adds.
Spec: TypeAlias = tuple[list[str], list[str]]

_UNSET: Any = object()
_WORKER_LIMITS = ("max_worker_lifetime_s", "max_tasks_per_worker", "max_worker_growth_gb", "worker_restart_interval_s")
_PLAIN_ATTRIBUTES = ("name", "resources", "batch_size", "runtime_env", *_WORKER_LIMITS)
_METHODS = ("num_workers", "num_workers_per_node")

# Settings of other frameworks that with_() accepts and that a class may define as methods, by name. Each function turns
# such a setting into settings of with_(). Empty unless the compatibility layer is installed.
FOREIGN_SETTINGS: dict[str, Callable[[Any], dict[str, Any]]] = {}


class WorkerLimits(NamedTuple):
    """When a worker is replaced; None means no limit."""

    max_worker_lifetime_s: float | None = None
    max_tasks_per_worker: int | None = None
    # By how much the resident memory may grow after the first task.
    max_worker_growth_gb: float | None = None
    # At least this long between two replacements in one pool.
    worker_restart_interval_s: float = 0.0


class ProcessingStage(Reporting, Generic[X, Y]):
    """One step of a pipeline.

    Define ``process``, and ``resources`` for what one worker needs. Everything else has a default.

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
    # Replace a worker after this many seconds, after this many tasks, or when its memory has grown by this much.
    max_worker_lifetime_s: float | None = None
    max_tasks_per_worker: int | None = None
    max_worker_growth_gb: float | None = None
    # Replace at most one worker per this many seconds.
    worker_restart_interval_s: float = 0.0

    is_source_stage: ClassVar[bool] = False
    is_sink_stage: ClassVar[bool] = False
    is_resumable: ClassVar[bool] = True
    # True where every input must have arrived before any output can leave (a shuffle, a global sort).
    is_barrier: ClassVar[bool] = False
    # True where outputs start a new lineage; the inputs are only a barrier.
    begins_anew: ClassVar[bool] = False

    # Modules that the process from which local workers are forked imports in advance; None: those of all stages of
    # Penstock, and pandas.
    preload: ClassVar[tuple[str, ...] | None] = None
    # True if a worker process that has run this stage can run another one. Not inherited: each class declares it.
    reusable_process: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 - passed through as they are
        """Check the class when it is defined, instead of failing later in a worker."""
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

        A list is held in memory as a whole. An iterator is not: each task it yields passes the following stages of the
        same worker before the next one is requested. Use an iterator to read a file larger than memory.
        """
        raise NotImplementedError(f"stage '{self.name}' ({type(self).__name__}) defines no process(self, task).")

    def process_batch(self, tasks: list[X]) -> Sequence[Y | list[Y] | Iterator[Y] | None]:
        """Process up to ``batch_size`` tasks at once.

        If there are as many results as tasks, they are matched by position; a result may be a list or None. Any other
        number of results is treated as made from all tasks together.
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
        """Return the attributes and columns a task must have; a dictionary if they depend on the task's type."""
        return [], []

    def outputs(self) -> Spec:
        """Return the attributes and columns that the stage adds."""
        return [], []

    def num_workers(self) -> int | None:
        """Return a fixed number of workers; None: the scheduler decides."""
        return None

    def num_workers_per_node(self) -> float | None:
        """Return a fixed number of workers per node; None: the scheduler decides."""
        return None

    def worker_limits(self) -> WorkerLimits:
        """Return when a worker of this stage is replaced."""
        limits = {name: getattr(type(self), name) for name in _WORKER_LIMITS}
        for name, translate in FOREIGN_SETTINGS.items():
            if callable(method := getattr(self, name, None)):
                limits.update(translate(method()))
        # What with_() has set on this stage wins over what its class defines.
        limits.update({name: value for name, value in vars(self).items() if name in _WORKER_LIMITS})
        return WorkerLimits(**limits)

    def reads_from(self) -> list[str]:
        """Return the paths this stage reads. The plan shows them and checks that the output does not overlap them."""
        return []

    def writes_to(self) -> str | None:
        """Return the folder this stage writes into, or None."""
        return None

    def source_files(self) -> list[SizedFile] | None:
        """Return the files a source will read, with their sizes; None if the stage is not a source of files."""
        return None

    def partition_files(self, files: Sequence[SizedFile]) -> list[list[SizedFile]]:
        """Return how these files are grouped into tasks."""
        return [list(files)]

    def source_tasks(self, files: Sequence[SizedFile]) -> Sequence[Task[Any]]:
        """Return the tasks that a source makes of these files, without ids; empty if the stage is not a source."""
        return []

    def fit_to(self, memory_per_worker: float, memory_budget: int | None = None) -> None:
        """Adapt to the memory per worker and the memory budget between stages. Called before planning."""

    def know_origins(self, origins: Sequence[str]) -> None:
        """Receive the origins of the documents of a run. Called before ``before_run``.

        An origin is the folder that the names of listed files are relative to (see ``SizedFile.origin``); the last
        entry stands for everything that does not come from listed files. After the run it is called with no origins,
        which restores the stage.
        """

    def before_run(self, *, resuming: bool) -> None:
        """Run once per run, on the driver, after the plan is checked and before any worker starts."""

    def validate_input(self, task: Task[Any]) -> bool:
        """Tell whether a task has the attributes and columns of ``inputs``."""
        return not self.missing_from(task)

    def missing_from(self, task: Task[Any]) -> list[str]:
        """Return the attributes and columns that this stage needs and the task lacks, attributes first."""
        attributes, columns = self.input_spec_for_task(type(task))
        # Every task has data. Accessing it would parse a batch that is still unparsed.
        missing = [attribute for attribute in attributes if attribute != "data" and not hasattr(task, attribute)]
        get_columns = getattr(task, "get_columns", None)
        if columns and get_columns is not None:
            present = set(get_columns())
            missing += [column for column in columns if column not in present]
        return missing

    def input_spec_for_task(self, task_type: Any) -> Spec:  # noqa: ANN401 - a class, or Any where none is stated
        """Return the attributes and columns needed of this type of task; the most specific class wins."""
        declared = self.inputs()
        if not isinstance(declared, dict):
            return declared
        if not isinstance(task_type, type):
            task_type = type(task_type)
        return next((declared[cls] for cls in task_type.__mro__ if cls in declared), ([], []))

    def is_fanout_stage(self) -> bool:
        """Tell whether one task may become many, from the return annotation of ``process``."""
        annotation = str(getattr(type(self).process, "__annotations__", {}).get("return", "")).lower()
        return "list" in annotation or "iterator" in annotation

    def task_types(self) -> tuple[Any, Any]:
        """Return the X and Y of ``ProcessingStage[X, Y]`` as the class declares them; Any where it does not.

        >>> class Bare(ProcessingStage): ...
        >>> Bare().task_types()
        (typing.Any, typing.Any)
        """
        for cls in type(self).__mro__:
            for generic in getattr(cls, "__orig_bases__", ()):
                origin = typing.get_origin(generic)
                if isinstance(origin, type) and issubclass(origin, ProcessingStage):
                    taken, made = typing.get_args(generic)
                    return _class_or_any(taken), _class_or_any(made)
        return Any, Any

    def supports_batch_processing(self) -> bool:
        """Tell whether the stage defines its own ``process_batch``."""
        return type(self).process_batch is not ProcessingStage.process_batch

    def get_config(self) -> dict[str, Any]:
        """Return the public attributes of the stage, which are usually its parameters."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    # -- changing a stage ----------------------------------------------------------------------------------

    def with_(
        self,
        name: str | None = None,
        resources: Resources | None = None,
        batch_size: int | None = None,
        runtime_env: dict[str, Any] | None = None,
        num_workers: int | None = _UNSET,
        num_workers_per_node: float | None = _UNSET,
        max_worker_lifetime_s: float | None = _UNSET,
        max_tasks_per_worker: int | None = _UNSET,
        max_worker_growth_gb: float | None = _UNSET,
        worker_restart_interval_s: float = _UNSET,
        **foreign: Any,  # noqa: ANN401 - settings of other frameworks, see FOREIGN_SETTINGS
    ) -> typing.Self:
        """Return a copy with other settings; the stage itself is not changed.

        ``num_workers=None`` removes a fixed number of workers, ``max_…=None`` a limit.

        A worker is replaced after ``max_worker_lifetime_s`` seconds, after ``max_tasks_per_worker`` tasks, or when its
        memory has grown by ``max_worker_growth_gb``; ``worker_restart_interval_s`` is the least time between two
        replacements. Replacing workers helps against libraries that leak memory.
        """
        changed = copy.deepcopy(self)
        plain = {"name": name, "resources": resources, "batch_size": batch_size, "runtime_env": runtime_env}
        for attribute, value in plain.items():
            if value is not None:
                setattr(changed, attribute, value)
        limits = {
            "max_worker_lifetime_s": max_worker_lifetime_s,
            "max_tasks_per_worker": max_tasks_per_worker,
            "max_worker_growth_gb": max_worker_growth_gb,
            "worker_restart_interval_s": worker_restart_interval_s,
        }
        given = {attribute: value for attribute, value in limits.items() if value is not _UNSET}
        for attribute, value in {**self._translate(foreign), **given}.items():
            setattr(changed, attribute, value)
        # Picklable constants replace the methods, so that they also override a subclass's definition.
        methods: dict[str, Any] = {
            "num_workers": num_workers,
            "num_workers_per_node": num_workers_per_node,
        }
        for method, constant in methods.items():
            if constant is not _UNSET:
                setattr(changed, method, functools.partial(_constant, constant))
        return changed

    def _translate(self, foreign: dict[str, Any]) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        for key, value in foreign.items():
            if key in FOREIGN_SETTINGS:
                try:
                    settings.update(FOREIGN_SETTINGS[key](value or {}))
                except ValueError as error:
                    raise ValueError(f"stage '{self.name}': {error}") from None
                continue
            known = [name for name in inspect.signature(ProcessingStage.with_).parameters if name != "foreign"][1:]
            raise TypeError(
                f"stage '{self.name}': with_() has no setting '{key}'; it has {', '.join(known)}."
                f"{suggestion(key, known)}"
            )
        return settings

    def merge(self, next_stage: ProcessingStage[Any, Any]) -> ProcessingStage[Any, Any] | None:
        """Return one stage that does the work of both in one pass, or None if merging has no benefit.

        The merged stage lists both in ``parts`` and reports each of them in ``take_part_counts``.
        """
        return None

    def parts(self) -> list[ProcessingStage[Any, Any]]:
        """Return the stages of the pipeline that this one was merged from."""
        return [self]

    def decider(self) -> tuple[Any, bool] | None:
        """Return the object whose ``keep_document`` decides, and whether its decision is inverted.

        None: the stage decides itself, or is not a filter.
        """
        return None

    def take_part_counts(self) -> list[PartCount]:
        """Return the counts of each part since the last call; for a stage of one part the worker counts."""
        return []

    def __repr__(self) -> str:
        """Return the name and resources of the stage."""
        return f"{type(self).__name__}(name={self.name!r}, {self.resources})"


def _constant(value: Any) -> Any:  # noqa: ANN401
    return value


def _class_or_any(annotation: Any) -> Any:  # noqa: ANN401
    origin = typing.get_origin(annotation) or annotation
    return origin if isinstance(origin, type) else Any
