"""The decisions of a filter on the documents of a batch: names, scores, and which documents are kept."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_NO_PARAMETERS: Mapping[str, Any] = MappingProxyType({})


class Verdicts(NamedTuple):
    """One filter's decisions on one batch, in columns.

    >>> verdicts = Verdicts("word_count", np.array([0, 1]), np.array([True, False]), np.array([80.0, 3.0]))
    >>> int(verdicts.kept.sum())
    1
    """

    # Stage or filter as the user knows it, such as "word_count".
    name: str
    # The documents, as DocumentBatch.source_rows names them.
    rows: npt.NDArray[np.int64]
    # False: dropped here. A document that an earlier filter of the same scan dropped may still be listed, with the
    # verdict it would have had, so that other thresholds can be tried later on the stored scores.
    kept: npt.NDArray[np.bool_]
    # Numbers, or None where the filter has no numeric score.
    scores: npt.NDArray[np.float64] | None = None
    # Parameters of the filter by name, for showing the threshold and for trying another.
    parameters: Mapping[str, Any] = _NO_PARAMETERS
