"""Handle input files that changed between a run and its resumption.

A source task is identified by its name, which follows from the names of its files, and by the content of these files.
If either differs now, everything that was made from it is withdrawn: its entry in the journal, its output files, its
receipts. The rest equals what a new run would make from the current files. Where that cannot be achieved, the run is
refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, NoReturn, Protocol, runtime_checkable

from penstock.core.files import FileGroupTask, SizedFile
from penstock.core.lineage import adopt_many, root_tasks
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.errors import CheckpointError
from penstock.plan.plan import Plan
from penstock.storage.input_files import FileMark, mark_files
from penstock.storage.journal import InputListing, Journal, Withdrawal

Stage = ProcessingStage[Any, Any]
_MAX_NAMED_FILES = 5
# Maximum number of names to try when searching for the task of a file that an interrupted run left.
_MAX_NAMES_TRIED = 2_000_000


@runtime_checkable
class ReplaceableOutput(Protocol):
    """A writer whose file names identify the task that each file was made from."""

    def stems_of(self, task_id: str) -> list[str]:
        """Return the possible names of the files of a task, without number and extension."""
        ...

    def own_files(self) -> list[str]:
        """Return the names of files in the output folder that have the form this writer uses."""
        ...

    def remove_files(self, names: Iterable[str]) -> None:
        """Remove files from the output folder; ignore those that do not exist."""
        ...


class Changes(NamedTuple):
    """How the files of two listings differ, by their paths."""

    changed: list[str]
    appeared: list[str]
    vanished: list[str]

    def __str__(self) -> str:
        """Return the counts, with the first few paths of each kind."""
        kinds = [("changed", self.changed), ("new", self.appeared), ("gone", self.vanished)]
        return "; ".join(f"{len(paths)} {word} ({_named(paths)})" for word, paths in kinds if paths)


def list_input(plan: Plan, initial_tasks: Sequence[Task[Any]] | None, known: InputListing | None) -> InputListing:
    """Return the input of a run: the files that its source lists, and the files of each source task."""
    source = plan.stages[0]
    options = getattr(source, "storage_options", None)
    if initial_tasks is None:
        found = list(plan.listing.get(0, ()))
        tasks = list(source.source_tasks(found))
        adopt_many(root_tasks(None)[0], tasks)
    else:
        tasks = root_tasks(initial_tasks)
        paths = dict.fromkeys(path for task in tasks if isinstance(task, FileGroupTask) for path in task.data)
        # Paths with a scheme are skipped: they may be URLs to download.
        found, options = [SizedFile(path, 0, path) for path in paths if "://" not in path], None
    marks = mark_files(found, options, {mark.path: mark for mark in known.files} if known is not None else None)
    numbers = {mark.path: number for number, mark in enumerate(marks)}
    sources = {
        task.task_id: tuple(numbers[path] for path in task.data if path in numbers)
        if isinstance(task, FileGroupTask)
        else ()
        for task in tasks
    }
    return InputListing(tuple(marks), sources)


def withdraw_changed(
    plan: Plan,
    journal: Journal,
    initial_tasks: Sequence[Task[Any]] | None,
    forget_receipts: Callable[[Collection[str]], None],
) -> None:
    """Compare the input with that of the earlier run, withdraw results of changed files, and print a message.

    Raise ``CheckpointError``, before anything is changed, if the result could differ from that of a new run.
    """
    writer = _replaceable(plan.stages)
    _remove(journal, writer, forget_receipts)  # completes a withdrawal that was interrupted
    before, now = journal.input, list_input(plan, initial_tasks, journal.input)
    if before is None:
        journal.list_input(now, files_of_others=writer.own_files() if writer is not None else ())
        return
    changes, stale = differences(before, now), stale_sources(before, now)
    if not stale and not any(changes):
        if now != before:
            journal.list_input(now, files_of_others=journal.files_of_others)  # touched, but with the same content
        return
    refuse = _Refusal(plan, journal, changes)
    mixing = next((stage for stage in plan.stages if _takes_several(stage)), None)
    if journal.done and mixing is not None:
        refuse(
            f"Stage '{mixing.name}' takes several tasks at once (batch_size={mixing.batch_size}), so that its batches "
            "depend on all files"
        )
    if stale and writer is None and any(stage.writes_to() is not None for stage in plan.stages):
        refuse("Their output cannot be told from that of other tasks: only the last stage of a pipeline may write")
    withdrawn = [source for source in stale if source in journal.done]
    files = [_last_part(path) for source in withdrawn for path in journal.done[source].files]
    if stale and writer is not None:
        files += _left_by_unfinished(writer, before, journal, stale, refuse)
    journal.list_input(now, Withdrawal(tuple(stale), tuple(files)), journal.files_of_others)
    _remove(journal, writer, forget_receipts)
    words = "All complete source tasks are still valid."
    if stale:
        words = (
            f"{_counted(len(withdrawn), 'complete source task is', 'complete source tasks are')} no longer valid: "
            f"{_counted(len(files), 'output file', 'output files')} made from the earlier content removed; the current "
            "files are read again."
        )
    print(f"checkpoint {journal.folder}: the input has changed since the last run: {changes}. {words}", file=sys.stderr)


def differences(before: InputListing, now: InputListing) -> Changes:
    """Return which files differ; compare by path or, if all files were moved, by name."""
    old, new = _by_path(before.files), _by_path(now.files)
    if not old.keys() & new.keys():
        old, new = _by_name(before.files), _by_name(now.files)
    changed = [mark.path for key, mark in new.items() if key in old and not mark.is_same_as(old[key])]
    return Changes(
        changed,
        [mark.path for key, mark in new.items() if key not in old],
        [mark.path for key, mark in old.items() if key not in new],
    )


def stale_sources(before: InputListing, now: InputListing) -> list[str]:
    """Return the source tasks that no longer exist, or that read other content than before."""
    return [source for source in before.sources if not _reads_the_same(before, now, source)]


def _reads_the_same(before: InputListing, now: InputListing, source: str) -> bool:
    if source not in now.sources:
        return False
    old, new = before.marks_of(source), now.marks_of(source)
    return len(old) == len(new) and all(one.is_same_as(other) for one, other in zip(old, new, strict=True))


def _left_by_unfinished(
    writer: ReplaceableOutput, before: InputListing, journal: Journal, stale: Sequence[str], refuse: _Refusal
) -> list[str]:
    """Return the files that an interrupted run wrote for changed source tasks that it did not complete.

    The journal does not list them. Their names follow from task names: those of the sources, and of the tasks that a
    reader makes from one source.
    """
    complete = {_last_part(path) for group in journal.done.values() for path in group.files}
    unknown: dict[str, list[str]] = {}
    for name in writer.own_files():
        if name not in complete and name not in journal.files_of_others:
            unknown.setdefault(name.partition(".")[0].partition("_")[0], []).append(name)
    unfinished, changed = [source for source in before.sources if source not in journal.done], set(stale)
    found: list[str] = []
    tried = 0
    for position in count(-1):
        if not unknown or not unfinished or tried > _MAX_NAMES_TRIED:
            break
        tried += len(unfinished)
        for source in unfinished:
            stems = writer.stems_of(source if position < 0 else f"{source}_{position}")
            names = [name for stem in stems for name in unknown.pop(stem, [])]
            found += names if source in changed else []  # other files are overwritten
    if unknown:
        names = [name for names in unknown.values() for name in names]
        refuse(
            f"An interrupted run has left {_counted(len(names), 'output file', 'output files')} ({_named(names)}), and "
            "it is unknown whether the input files they were made from have changed"
        )
    return found


class _Refusal:
    """Raise the error of a run that cannot be resumed because its input changed."""

    def __init__(self, plan: Plan, journal: Journal, changes: Changes) -> None:
        self._journal = journal
        self._changes = changes
        self._outputs = [target for stage in plan.stages if (target := stage.writes_to()) is not None]

    def __call__(self, reason: str) -> NoReturn:
        output = f" and the output in {', '.join(self._outputs)}" if self._outputs else ""
        raise CheckpointError(
            f"checkpoint {self._journal.folder}: the input has changed since the last run: {self._changes}. {reason}, "
            f"and the result could differ from a new run. To start over, delete {self._journal.folder}{output}, "
            "or use another checkpoint_path and another output folder. Nothing was changed."
        )


def _remove(
    journal: Journal, writer: ReplaceableOutput | None, forget_receipts: Callable[[Collection[str]], None]
) -> None:
    """Remove the files and receipts that were withdrawn; safe to repeat after a crash."""
    if journal.to_remove is None:
        return
    if writer is not None:
        writer.remove_files(journal.to_remove.files)
    forget_receipts(journal.to_remove.sources)
    journal.removed()


def _replaceable(stages: Sequence[Stage]) -> ReplaceableOutput | None:
    """Return the writer if it is the only one, the last stage, and its files can be attributed to tasks."""
    writers = [stage for stage in stages if stage.writes_to() is not None]
    last = stages[-1]
    return last if len(writers) == 1 and writers[0] is last and isinstance(last, ReplaceableOutput) else None


def _takes_several(stage: Stage) -> bool:
    return stage.is_barrier or (stage.batch_size > 1 and stage.supports_batch_processing())


def _by_path(files: Iterable[FileMark]) -> Mapping[str, FileMark]:
    return {file.path: file for file in files}


def _by_name(files: Iterable[FileMark]) -> Mapping[str, FileMark]:
    return {file.name: file for file in files}


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _named(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_MAX_NAMED_FILES]) + (", …" if len(paths) > _MAX_NAMED_FILES else "")


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]
