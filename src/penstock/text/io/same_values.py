"""Find the values of a column that did not change: equal and of the same type."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.json_column import is_json
from penstock.text.io.json_tokens import python_values

Mask = npt.NDArray[np.bool_]


def same_values(old: pa.Field, before: pa.ChunkedArray, new: pa.Field, now: pa.ChunkedArray) -> Mask:
    """Return, for each row, whether its value is unchanged; 1, 1.0 and true are different values."""
    same: Mask = np.zeros(len(before), np.bool_)
    if is_json(old) == is_json(new):
        if before.type != now.type and _is_text(before.type) and _is_text(now.type):
            now = now.cast(before.type)
        if before.type == now.type:
            equal = pc.fill_null(pc.equal(before, now), False)
            both_null = pc.and_(pc.is_null(before), pc.is_null(now))
            same = pc.or_(equal, both_null).to_numpy().astype(np.bool_)
            if not is_json(old):
                return same
    differing = np.flatnonzero(~same)
    if len(differing):
        rows = pa.array(differing)
        olds, news = python_values(old, before.take(rows)), python_values(new, now.take(rows))
        same[differing] = [_identical(one, other) for one, other in zip(olds, news, strict=True)]
    return same


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _identical(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON value
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_identical(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_identical, one, other))
    return bool(one == other)
