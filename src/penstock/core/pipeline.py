"""A pipeline: a named list of stages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.core.composite import CompositeStage, expand
from penstock.core.executor import Executor, default_executor
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task


class Pipeline:
    """A named list of stages. It can be run any number of times; a run does not change it.

    >>> from penstock.text import JsonlReader, JsonlWriter
    >>> pipeline = Pipeline("copy").add_stage(JsonlReader("in/")).add_stage(JsonlWriter("out/"))
    >>> print(pipeline.describe())
    Pipeline 'copy', 2 stages
      1. jsonl_reader (JsonlReader)
           file_partitioning   0.5 CPU  reads in/, 1 worker
           jsonl_reader_stage  1 CPU
      2. jsonl_writer          1 CPU    writes out/
    """

    def __init__(
        self,
        name: str,
        description: str | None = None,
        stages: Sequence[ProcessingStage[Any, Any]] | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.stages: list[ProcessingStage[Any, Any]] = []
        self.config = dict(config or {})
        # Whether a second run resumes from whole files that the stages leave, without a checkpoint.
        self.keeps_progress = False
        for stage in stages or ():
            self.add_stage(stage)

    def add_stage(self, stage: ProcessingStage[Any, Any]) -> Pipeline:
        """Append a stage, and return the pipeline so that calls chain."""
        if not isinstance(stage, ProcessingStage):
            hint = ""
            if isinstance(stage, type) and issubclass(stage, ProcessingStage):
                hint = f" Make an instance first: {stage.__name__}(…)."
            elif callable(stage):
                hint = " Put @processing_stage(name=…) on the function first."
            raise TypeError(f"pipeline '{self.name}': add_stage takes a stage, got {stage!r}.{hint}")
        self.stages.append(stage)
        return self

    def build(self) -> list[ProcessingStage[Any, Any]]:
        """Return the stages that would run, with composites decomposed."""
        if not self.stages:
            raise ValueError(f"pipeline '{self.name}' has no stages. Add one: pipeline.add_stage(…).")
        stages = expand(self.stages)
        if not stages:
            raise ValueError(f"pipeline '{self.name}' has no stages: its composites decompose into nothing.")
        return stages

    def run(
        self,
        executor: Executor | None = None,
        initial_tasks: Sequence[Task[Any]] | None = None,
        checkpoint_path: str | Path | None = None,
    ) -> list[Task[Any]]:
        """Run all stages and return the outputs of the last one, in the order of the input.

        With a ``checkpoint_path`` completed work is recorded there, and a second run with the same path resumes where
        the first one stopped.
        """
        return (executor or default_executor()).execute(self, initial_tasks, checkpoint_path)

    def describe(self) -> str:
        """Return a description of the pipeline, one line per stage."""
        plural = "stage" if len(self.stages) == 1 else "stages"
        rows: list[tuple[str, str, str]] = []
        for number, stage in enumerate(self.stages, start=1):
            prefix = f"  {number}. "
            if isinstance(stage, CompositeStage):
                rows.append((f"{prefix}{stage.name} ({type(stage).__name__})", "", ""))
                rows += [_row(" " * (len(prefix) + 2), inner) for inner in expand([stage])]
            else:
                rows.append(_row(prefix, stage))
        widths = [max((len(row[i]) for row in rows if row[1]), default=0) for i in range(2)]
        lines = [f"{name:<{widths[0]}}  {need:<{widths[1]}}  {remark}".rstrip() for name, need, remark in rows]
        head = f"Pipeline '{self.name}', {len(self.stages)} {plural}"
        return "\n".join([head, *([f"  {self.description}"] if self.description else []), *lines])

    def __repr__(self) -> str:
        """Name the pipeline and its stages."""
        return f"Pipeline({self.name!r}, stages=[{', '.join(stage.name for stage in self.stages)}])"


def _row(prefix: str, stage: ProcessingStage[Any, Any]) -> tuple[str, str, str]:
    remarks = []
    if stage.reads_from():
        remarks.append(f"reads {', '.join(stage.reads_from())}")
    if stage.writes_to():
        remarks.append(f"writes {stage.writes_to()}")
    if stage.batch_size > 1:
        remarks.append(f"{stage.batch_size} tasks at a time")
    if (workers := stage.num_workers()) is not None:
        remarks.append("1 worker" if workers == 1 else f"{workers} workers")
    return f"{prefix}{stage.name}", str(stage.resources), ", ".join(remarks)
