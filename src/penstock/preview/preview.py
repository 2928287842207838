"""Estimate what a recipe does to a whole input by running a sample: yield, speed, duration and warnings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.files import SizedFile
from penstock.errors import PlanError, StageError
from penstock.executors.inline import InlineExecutor
from penstock.ledger.query.decisions import Decisions, assemble
from penstock.ledger.query.ledger import find_ledger
from penstock.preview.clustered_share import Share, clustered_share
from penstock.recipe.recipe import load_recipe
from penstock.runtime.machine import this_machine
from penstock.text.io.input_sample import SampleSpot, sample_jsonl, sample_parquet

# The sample is drawn at this many spots of the input.
_MAX_SPOTS = 40
# Documents of the run before the measured one, which compiles kernels and loads models.
_WARM_UP_DOCUMENTS = 50
# A stage or a source with fewer documents gets no warning and no mean of its own.
_MIN_DOCUMENTS = 100
# A source gets a warning if its share differs from that of the others by more than this many standard errors.
_UNUSUAL_SOURCE_Z = 4.0
# A stage that drops at least this share gets a warning.
_HIGH_DROP_SHARE = 0.95


@dataclass
class StageYield:
    """The expected effect of a stage on the whole input."""

    stage: str
    seen: int
    dropped: int
    # The share that it drops of the documents that reach it.
    share: Share
    seconds: float


@dataclass
class Preview:
    """The estimates for a whole input, from a sample."""

    files: int
    bytes: int
    documents: int
    # Number of spots of the input from which the sample was drawn.
    places: int
    # Estimated number of documents in the input, from the size of those in the sample.
    expected_documents: int
    stages: list[StageYield]
    kept: Share
    kept_bytes: float
    bytes_per_core_second: float
    cores: float
    eta_seconds: float
    set_aside: int
    # Warnings, as sentences.
    suspicious: list[str] = field(default_factory=list)


def preview_recipe(
    folder: Path,
    files: Sequence[SizedFile],
    kind: str,
    recipe: str,
    overrides: Sequence[str],
    documents: int,
    variables: Mapping[str, Any] | None = None,
) -> Preview:
    """Run a sample of the files through a recipe and estimate the effect on all of them.

    ``folder`` takes the temporary files; ``documents`` is the size of the sample.
    """
    take = sample_parquet if kind == "Parquet" else sample_jsonl
    spots = list(take(files, documents, min(_MAX_SPOTS, documents)))
    if not spots:
        raise PlanError("preview", ["the input holds no documents"])
    _write(folder / "warm", kind, spots[:1], _WARM_UP_DOCUMENTS)
    _run(folder / "warm", kind, recipe, overrides, variables or {})  # compile kernels, load models
    _write(folder / "sample", kind, spots)
    summary = _run(folder / "sample", kind, recipe, overrides, variables or {})
    ledger = find_ledger(str(folder / "sample/run"))
    decisions = assemble(ledger.parts, ledger.rules.labels)
    letters = folder / "sample/run/dead_letters.jsonl"
    # Not splitlines(): it also splits at other characters, which may be part of a text.
    written = letters.read_text(encoding="utf-8").split("\n") if letters.exists() else []
    dead_letters = [json.loads(line) for line in written if line]
    if not len(decisions):
        raise PlanError(
            "preview", [f"none of the {sum(spot.count for spot in spots)} documents in the sample could be read"]
        )
    rows = decisions.row + np.array([ledger.row_in_file(name, 0) for name in decisions.blocks])[decisions.block]
    where = _spot_of_each(rows, spots, dead_letters)
    total = sum(file.size for file in files)
    size = _bytes_per_document(spots)
    counts = np.bincount(where, minlength=len(spots))
    # Spots are equally far apart in bytes, so a spot with short documents represents more documents.
    weights = 1 / size / np.maximum(counts, 1)
    stages = _yields(decisions, where, weights, summary)
    kept = decisions.dropped < 0
    seconds = sum(counters["seconds"] for counters in summary["stages"])
    speed = sum(spot.bytes for spot in spots) / max(seconds, 1e-9)
    cores = float(this_machine().nodes[0].cpus)
    expected = round(total * float((1 / size).mean()))
    preview = Preview(
        files=len(files),
        bytes=total,
        documents=len(decisions),
        places=len(spots),
        expected_documents=expected,
        stages=stages,
        kept=_share(kept, where, weights),
        kept_bytes=float(decisions.sizes[kept].sum() / max(int(decisions.sizes.sum()), 1)),
        bytes_per_core_second=speed,
        cores=cores,
        eta_seconds=expected * seconds / max(len(decisions), 1) / cores,
        set_aside=len(dead_letters),
    )
    preview.suspicious = [*_unusual_stages(preview, dead_letters), *_unusual_sources(decisions, where, spots)]
    return preview


def _bytes_per_document(spots: Sequence[SampleSpot]) -> npt.NDArray[np.float64]:
    """Return for each spot the mean size of a document in its file, or in all files if its file has few documents.

    The mean of one spot alone would be too uncertain to serve as a weight.
    """
    files = sorted({spot.file for spot in spots})
    number = np.array([files.index(spot.file) for spot in spots])
    count = np.bincount(number, [spot.count for spot in spots])
    size = np.bincount(number, [spot.bytes_in_file for spot in spots])
    overall = size.sum() / max(count.sum(), 1)
    means = np.where(count >= _MIN_DOCUMENTS, size / np.maximum(count, 1), overall)
    sizes: npt.NDArray[np.float64] = np.maximum(means, 1.0)[number]
    return sizes


def _write(folder: Path, kind: str, spots: Sequence[SampleSpot], limit: int | None = None) -> None:
    """Write the sample to one file, which serves as a small input."""
    folder.mkdir()
    if kind == "Parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables([spot.table for spot in spots], promote_options="default")
        pq.write_table(table.slice(0, limit), folder / "sample.parquet")
        return
    lines = [line for spot in spots for line in spot.lines]
    (folder / "sample.jsonl").write_bytes(b"".join(lines[:limit]))


def _run(
    folder: Path, kind: str, recipe: str, overrides: Sequence[str], variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a sample through the recipe in this process, and return the summary of the run."""
    settings = {
        "input_path": f"{folder}/sample.{'parquet' if kind == 'Parquet' else 'jsonl'}",
        "output_path": f"{folder}/out",
        "reader": f"{kind}Reader",
        "writer": f"{kind}Writer",
        **variables,
    }
    loaded = load_recipe(recipe, overrides, variables=settings)
    executor = InlineExecutor(run_dir=str(folder / "run"), show_progress=False)
    try:
        loaded.pipeline.run(executor)
    except StageError as error:
        raise StageError(f"the recipe fails on the sample, so it would fail on the whole input: {error}") from error
    assert executor.last_summary is not None
    return executor.last_summary.to_dict()


def _spot_of_each(
    rows: npt.NDArray[np.int64], spots: Sequence[SampleSpot], dead_letters: Sequence[dict[str, Any]]
) -> npt.NDArray[np.int64]:
    """Return the number of the spot that each document comes from. Lines that could not be read are skipped."""
    ends = list(accumulate(spot.count for spot in spots))
    skipped = {
        int(letter["position"]) - 1
        for letter in dead_letters
        if letter["position"] is not None and not letter["failed"]
    }
    lines = [line for spot in spots for line in spot.lines]
    blank = {number for number, line in enumerate(lines) if not line.strip()}
    numbers = np.array([number for number in range(ends[-1]) if number not in skipped | blank], np.int64)
    return np.searchsorted(np.array(ends), numbers[np.minimum(rows, len(numbers) - 1)], side="right")


def _yields(
    decisions: Decisions,
    where: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    summary: dict[str, Any],
) -> list[StageYield]:
    seconds: dict[str, float] = {counters["stage"]: counters["seconds"] for counters in summary["stages"]}
    reader = decisions.about[0].get("read", {}).get("by")
    alive = np.ones(len(decisions), bool)
    found = []
    for number, label in enumerate(decisions.labels):
        if reader is not None and number <= decisions.labels.index(reader):
            continue
        dropped = alive & (decisions.dropped == number)
        share = _share(dropped[alive], where[alive], weights)
        found.append(StageYield(label, int(alive.sum()), int(dropped.sum()), share, seconds.get(label, 0.0)))
        alive &= ~dropped
    return found


def _share(hit: npt.NDArray[np.bool_], where: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> Share:
    size = len(weights)
    return clustered_share(
        np.bincount(where[hit], minlength=size).tolist(), np.bincount(where, minlength=size).tolist(), weights.tolist()
    )


def _unusual_stages(preview: Preview, dead_letters: Sequence[dict[str, Any]]) -> list[str]:
    found = []
    idle = []
    for stage in preview.stages[:-1]:  # the last stage is the writer
        if stage.seen < _MIN_DOCUMENTS:
            continue
        if stage.dropped == stage.seen:
            found.append(
                f"'{stage.stage}' drops every document that reaches it. Is its threshold right, and the column?"
            )
        elif stage.share.value >= _HIGH_DROP_SHARE:
            found.append(f"'{stage.stage}' drops {stage.share.value:.0%} of the documents that reach it.")
        elif stage.dropped == 0:
            idle.append(stage)
    if idle:
        most = max(stage.share.high for stage in idle)
        names = ", ".join(f"'{stage.stage}'" for stage in idle)
        found.append(
            f"No document of the sample is dropped by {names}: each drops at most {most:.1%} of the whole input."
        )
    if dead_letters:
        first = dead_letters[0]
        share = len(dead_letters) / (preview.documents + len(dead_letters))
        found.append(
            f"{len(dead_letters)} record{'s' * (len(dead_letters) != 1)} ({share:.1%}) cannot be read or processed, "
            f"the first: {first['reason']}"
        )
    return found


def _unusual_sources(decisions: Decisions, where: npt.NDArray[np.int64], spots: Sequence[SampleSpot]) -> list[str]:
    """Find sources of which a stage drops a significantly different share than of the other sources."""
    names = [str(Path(spot.file).parent) for spot in spots]
    if len(set(names)) == 1:
        names = [spot.file for spot in spots]
    sources = sorted(set(names))
    if not 1 < len(sources) <= _MAX_SPOTS // 2:
        return []
    source = np.array([sources.index(name) for name in names])[where]
    found = []
    for number, label in enumerate(decisions.labels):
        reached = (decisions.dropped < 0) | (decisions.dropped >= number)
        dropped = decisions.dropped == number
        for code, name in enumerate(sources):
            here, others = reached & (source == code), reached & (source != code)
            if min(here.sum(), others.sum()) < _MIN_DOCUMENTS:
                continue
            one, rest, both = dropped[here].mean(), dropped[others].mean(), dropped[reached].mean()
            spread = np.sqrt(both * (1 - both) * (1 / here.sum() + 1 / others.sum()))
            if spread > 0 and abs(one - rest) / spread > _UNUSUAL_SOURCE_Z:
                found.append(f"'{label}' drops {one:.0%} of {name}, and {rest:.0%} of the rest.")
    return found
