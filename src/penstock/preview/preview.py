"""Estimate what a recipe does to a whole input by running a sample: yield, speed, duration and warnings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
from penstock.preview.estimate import Preview, StageYield
from penstock.preview.unusual import unusual_sources, unusual_stages
from penstock.recipe.recipe import load_recipe
from penstock.runtime.machine import this_machine
from penstock.text.io.input_sample import SampleSpot, sample_jsonl, sample_parquet

# The sample is drawn at this many spots of the input.
_MAX_SPOTS = 40
# Documents of the run before the measured one, which compiles kernels and loads models.
_WARM_UP_DOCUMENTS = 50
# Files with fewer sampled documents get the mean document size of all files.
_MIN_DOCUMENTS = 100


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
    preview.suspicious = [
        *unusual_stages(stages, len(decisions), dead_letters),
        *unusual_sources(decisions, where, spots),
    ]
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
