"""Compute a ratio with a default for an empty denominator."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from penstock.kernels.features import Numbers


@overload
def share(part: int, whole: int, of_nothing: float) -> float: ...


@overload
def share(part: Numbers, whole: Numbers, of_nothing: float) -> npt.NDArray[np.float64]: ...


def share(part: Any, whole: Any, of_nothing: float) -> Any:
    """Divide ``part`` by ``whole``; return ``of_nothing`` where ``whole`` is 0.

    >>> share(1, 4, of_nothing=0.0), share(0, 0, of_nothing=1.0)
    (0.25, 1.0)
    >>> share(np.array([1, 0]), np.array([4, 0]), of_nothing=1.0).tolist()
    [0.25, 1.0]
    """
    if isinstance(whole, np.ndarray):
        return np.where(whole == 0, of_nothing, part / np.maximum(whole, 1))
    return part / whole if whole else of_nothing
