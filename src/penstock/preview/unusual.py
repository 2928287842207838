"""Find unusual results of a preview: stages that drop nearly everything or nothing, and sources that differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.ledger.query.decisions import Decisions
from penstock.preview.estimate import StageYield
from penstock.text.io.input_sample import SampleSpot

# A stage or a source with fewer documents gets no warning.
_MIN_DOCUMENTS = 100
# With more sources than this, each has too few spots of the sample to be compared with the others.
_MAX_SOURCES = 20
# A source gets a warning if its share differs from that of the others by more than this many standard errors.
_UNUSUAL_SOURCE_Z = 4.0
# A stage that drops at least this share gets a warning.
_HIGH_DROP_SHARE = 0.95


def unusual_stages(stages: Sequence[StageYield], documents: int, dead_letters: Sequence[dict[str, Any]]) -> list[str]:
    """Find stages that drop nearly everything or nothing, and report records that could not be processed."""
    found = []
    idle = []
    for stage in stages[:-1]:  # the last stage is the writer
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
            f"No document of the sample is dropped by {names}: less than {most:.1%} of the input each, with 95 % "
            "confidence."
        )
    if dead_letters:
        first = dead_letters[0]
        share = len(dead_letters) / (documents + len(dead_letters))
        found.append(
            f"{len(dead_letters)} record{'s' * (len(dead_letters) != 1)} ({share:.1%}) cannot be read or processed, "
            f"the first: {first['reason']}"
        )
    return found


def unusual_sources(decisions: Decisions, where: npt.NDArray[np.int64], spots: Sequence[SampleSpot]) -> list[str]:
    """Find sources of which a stage drops a significantly different share than of the other sources."""
    names = [str(Path(spot.file).parent) for spot in spots]
    if len(set(names)) == 1:
        names = [spot.file for spot in spots]
    sources = sorted(set(names))
    if not 1 < len(sources) <= _MAX_SOURCES:
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
