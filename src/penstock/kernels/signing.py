"""Compute signatures on the CPU, or on a GPU if one was requested and is available."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import MissingExtraError
from penstock.kernels.minhash import Words, permutations, signatures
from penstock.kernels.shingles import Shingling

DEVICES = ("auto", "cpu", "cuda")


def choose_device(wanted: str, shingling: Shingling) -> str:
    """Return "cpu" or "cuda"; shingles of words always use the CPU.

    >>> choose_device("cpu", Shingling())
    'cpu'
    """
    if wanted not in DEVICES:
        raise ValueError(f"device={wanted!r}; it is one of {', '.join(DEVICES)}.")
    if wanted == "cpu" or shingling.unit == "word":
        return "cpu"
    try:
        import torch
        import triton  # noqa: F401 - only to check that it is installed
    except ImportError as error:
        if wanted == "cuda":
            raise MissingExtraError("torch", "gpu", "signatures on a GPU") from error
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise ValueError(
            "device='cuda', but torch sees no GPU here. Use device='auto' to take the CPU where there is none."
        )
    return "cpu"


class Signer:
    """Compute signatures; they are the same on every device."""

    def __init__(self, shingling: Shingling, count: int, seed: int, bits: int, device: str) -> None:
        self._shingling = shingling
        self._permutations = permutations(count, seed, bits)
        self._gpu: Any = None
        if device == "cuda":
            from penstock.kernels.minhash_gpu import GpuMinHash

            self._gpu = GpuMinHash(shingling, self._permutations)

    def signatures(self, texts: pa.Array | pa.ChunkedArray) -> tuple[Words, npt.NDArray[np.bool_]]:
        """Return the signature of every text, and whether it has a shingle."""
        if self._gpu is not None:
            made: tuple[Words, npt.NDArray[np.bool_]] = self._gpu.signatures(texts)
            return made
        return signatures(texts, self._shingling, self._permutations)
