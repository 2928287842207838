"""What a recipe will make of a whole input, judged by a sample of it: yield, speed, time, and what looks wrong."""

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

_PLACES = 40
_WARM_UP = 50
# Fewer documents than that at a stage, or at a source, and nothing is said of it.
_ENOUGH = 100
_ODD_SOURCE_Z = 4.0
_NEARLY_ALL = 0.95


@dataclass
class StageYield:
    """What a stage will do to the whole."""

    stage: str
    seen: int
    dropped: int
    # Of the documents that reach it.
    share: Share
    seconds: float


@dataclass
class Preview:
    """What a sample says of the whole."""

    files: int
    bytes: int
    documents: int
    places: int
    # Documents that the whole holds, going by the size of those in the sample.
    expected_documents: int
    stages: list[StageYield]
    kept: Share
    kept_bytes: float
    bytes_per_core_second: float
    cores: float
    eta_seconds: float
    set_aside: int
    # Sentences on what looks wrong.
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
    """Run a sample of some files through a recipe, with ``folder`` for all that is written on the way."""
    take = sample_parquet if kind == "Parquet" else sample_jsonl
    places = list(take(files, documents, min(_PLACES, documents)))
    if not places:
        raise PlanError("preview", ["the input holds no documents"])
    _write(folder / "warm", kind, places[:1], _WARM_UP)
    _run(folder / "warm", kind, recipe, overrides, variables or {})  # kernels are compiled, models are loaded
    _write(folder / "sample", kind, places)
    summary = _run(folder / "sample", kind, recipe, overrides, variables or {})
    ledger = find_ledger(str(folder / "sample/run"))
    decisions = assemble(ledger.parts, ledger.rules.labels)
    letters = folder / "sample/run/dead_letters.jsonl"
    # Not splitlines(): a text may hold characters that it takes for the end of a line.
    written = letters.read_text(encoding="utf-8").split("\n") if letters.exists() else []
    broken = [json.loads(line) for line in written if line]
    if not len(decisions):
        raise PlanError(
            "preview", [f"none of the {sum(place.count for place in places)} documents tried could be read"]
        )
    rows = decisions.row + np.array([ledger.row_in_file(name, 0) for name in decisions.blocks])[decisions.block]
    where = _place_of_each(rows, places, broken)
    total = sum(file.size for file in files)
    size = _bytes_per_document(places)
    counts = np.bincount(where, minlength=len(places))
    # Places are equally far apart in bytes: one of short documents stands for more of them.
    weights = 1 / size / np.maximum(counts, 1)
    stages = _yields(decisions, where, weights, summary)
    kept = decisions.dropped < 0
    seconds = sum(counters["seconds"] for counters in summary["stages"])
    speed = sum(place.bytes for place in places) / max(seconds, 1e-9)
    cores = float(this_machine().nodes[0].cpus)
    expected = round(total * float((1 / size).mean()))
    preview = Preview(
        files=len(files),
        bytes=total,
        documents=len(decisions),
        places=len(places),
        expected_documents=expected,
        stages=stages,
        kept=_share(kept, where, weights),
        kept_bytes=float(decisions.sizes[kept].sum() / max(int(decisions.sizes.sum()), 1)),
        bytes_per_core_second=speed,
        cores=cores,
        eta_seconds=expected * seconds / max(len(decisions), 1) / cores,
        set_aside=len(broken),
    )
    preview.suspicious = [*_odd_stages(preview, broken), *_odd_sources(decisions, where, places)]
    return preview


def _bytes_per_document(places: Sequence[SampleSpot]) -> npt.NDArray[np.float64]:
    """Return for each place how much of its file a document takes: on average in that file, or in all of them.

    Not at that very place: of a few documents the mean is too uncertain to weigh anything with.
    """
    files = sorted({place.file for place in places})
    number = np.array([files.index(place.file) for place in places])
    count = np.bincount(number, [place.count for place in places])
    size = np.bincount(number, [place.bytes_in_file for place in places])
    overall = size.sum() / max(count.sum(), 1)
    means = np.where(count >= _ENOUGH, size / np.maximum(count, 1), overall)
    sizes: npt.NDArray[np.float64] = np.maximum(means, 1.0)[number]
    return sizes


def _write(folder: Path, kind: str, places: Sequence[SampleSpot], most: int | None = None) -> None:
    """Write the sample down as one file, as if it were a small input."""
    folder.mkdir()
    if kind == "Parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables([place.table for place in places], promote_options="default")
        pq.write_table(table.slice(0, most), folder / "sample.parquet")
        return
    lines = [line for place in places for line in place.lines]
    (folder / "sample.jsonl").write_bytes(b"".join(lines[:most]))


def _run(
    folder: Path, kind: str, recipe: str, overrides: Sequence[str], variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a sample through the recipe, in this process, and return the totals."""
    given = {
        "input_path": f"{folder}/sample.{'parquet' if kind == 'Parquet' else 'jsonl'}",
        "output_path": f"{folder}/out",
        "reader": f"{kind}Reader",
        "writer": f"{kind}Writer",
        **variables,
    }
    loaded = load_recipe(recipe, overrides, variables=given)
    executor = InlineExecutor(run_dir=str(folder / "run"), show_progress=False)
    try:
        loaded.pipeline.run(executor)
    except StageError as error:
        raise StageError(f"the recipe fails on the sample, and so it would on the whole: {error}") from error
    assert executor.last_summary is not None
    return executor.last_summary.to_dict()


def _place_of_each(
    rows: npt.NDArray[np.int64], places: Sequence[SampleSpot], broken: Sequence[dict[str, Any]]
) -> npt.NDArray[np.int64]:
    """Return which place each document is from; lines that could not be read are no documents."""
    ends = list(accumulate(place.count for place in places))
    skipped = {
        int(letter["position"]) - 1 for letter in broken if letter["position"] is not None and not letter["failed"]
    }
    lines = [line for place in places for line in place.lines]
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
        gone = alive & (decisions.dropped == number)
        share = _share(gone[alive], where[alive], weights)
        found.append(StageYield(label, int(alive.sum()), int(gone.sum()), share, seconds.get(label, 0.0)))
        alive &= ~gone
    return found


def _share(hit: npt.NDArray[np.bool_], where: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> Share:
    size = len(weights)
    return clustered_share(
        np.bincount(where[hit], minlength=size).tolist(), np.bincount(where, minlength=size).tolist(), weights.tolist()
    )


def _odd_stages(preview: Preview, broken: Sequence[dict[str, Any]]) -> list[str]:
    found = []
    idle = []
    for stage in preview.stages[:-1]:  # the last one writes
        if stage.seen < _ENOUGH:
            continue
        if stage.dropped == stage.seen:
            found.append(
                f"'{stage.stage}' drops every document that reaches it. Is its threshold right, and the column?"
            )
        elif stage.share.value >= _NEARLY_ALL:
            found.append(f"'{stage.stage}' drops {stage.share.value:.0%} of what reaches it.")
        elif stage.dropped == 0:
            idle.append(stage)
    if idle:
        most = max(stage.share.high for stage in idle)
        names = ", ".join(f"'{stage.stage}'" for stage in idle)
        found.append(f"Nothing in the sample is dropped by {names}: less than {most:.1%} of the whole each, if any.")
    if broken:
        first = broken[0]
        share = len(broken) / (preview.documents + len(broken))
        found.append(f"{len(broken)} records ({share:.1%}) cannot be read or processed, the first: {first['reason']}")
    return found


def _odd_sources(decisions: Decisions, where: npt.NDArray[np.int64], places: Sequence[SampleSpot]) -> list[str]:
    """Find sources of which a stage drops far more, or far less, than of the others."""
    names = [str(Path(place.file).parent) for place in places]
    if len(set(names)) == 1:
        names = [place.file for place in places]
    sources = sorted(set(names))
    if not 1 < len(sources) <= _PLACES // 2:
        return []
    source = np.array([sources.index(name) for name in names])[where]
    found = []
    for number, label in enumerate(decisions.labels):
        reached = (decisions.dropped < 0) | (decisions.dropped >= number)
        gone = decisions.dropped == number
        for code, name in enumerate(sources):
            here, others = reached & (source == code), reached & (source != code)
            if min(here.sum(), others.sum()) < _ENOUGH:
                continue
            one, rest, both = gone[here].mean(), gone[others].mean(), gone[reached].mean()
            spread = np.sqrt(both * (1 - both) * (1 / here.sum() + 1 / others.sum()))
            if spread > 0 and abs(one - rest) / spread > _ODD_SOURCE_Z:
                found.append(f"'{label}' drops {one:.0%} of {name}, and {rest:.0%} of the rest.")
    return found
