"""DeBERTa's attention on a GPU over packed sequences; the kernel is in ``disentangled_attention.cu``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from penstock.kernels.cuda_module import CudaKernel

# As in the CUDA source: queries of one block, width of a head, and the shared memory of a block.
QUERIES = 128
HEAD_WIDTH = 64
_SHARED_BYTES = 2 * (12 * 32 * 72 + 128 * 72 + 32 * 168)
# Rows of the position tables beyond the last distance that differs: a tile reaches over that many.
_MARGIN = 128


def bucket(distance: npt.NDArray[np.int64], buckets: int, max_position: int) -> npt.NDArray[np.int64]:
    """Return the bucket of a relative distance: exact up to half of ``buckets``, logarithmic from there on.

    >>> bucket(np.array([3, -128, 129, 511, -512]), 256, 512)
    array([   3, -128,  129,  255, -256])
    """
    middle = buckets // 2
    far = np.maximum(np.abs(distance), 1) / middle
    logarithmic = np.ceil(np.log(far) / math.log((max_position - 1) / middle) * (middle - 1)) + middle
    return np.where(np.abs(distance) <= middle, distance, np.sign(distance) * logarithmic).astype(np.int64)


class Packing:
    """Where each document is in a packed tensor, cut into blocks of queries, longest documents first."""

    def __init__(self, lengths: Sequence[int], device: torch.device | str = "cuda") -> None:
        sizes = np.asarray(lengths, dtype=np.int32)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        order = np.argsort(-sizes, kind="stable")
        counts = -(-sizes[order] // QUERIES)
        which = np.repeat(order, counts)
        first = np.concatenate([np.arange(count) for count in counts]).astype(np.int32) * QUERIES
        host = torch.from_numpy(np.stack([starts[which], sizes[which], first])).pin_memory()
        self.starts, self.lengths, self.first_queries = host.to(device, non_blocking=True)
        self.blocks = len(which)


@cache
def _kernel(dtype: torch.dtype) -> CudaKernel:
    defines = ["BF16"] if dtype == torch.bfloat16 else []
    return CudaKernel(
        "disentangled_attention.cu", "disentangled_attention", shared_bytes=_SHARED_BYTES, defines=defines
    )


def expand_positions(rows: torch.Tensor, heads: int, buckets: int, max_position: int) -> torch.Tensor:
    """Expand projected position rows from buckets to distances: [2 buckets, heads * 64] to [heads, 2 reach, 64]."""
    reach = max_position + _MARGIN
    index = np.clip(bucket(np.arange(-reach, reach), buckets, max_position) + buckets, 0, 2 * buckets - 1)
    chosen = rows.view(2 * buckets, heads, HEAD_WIDTH)[torch.from_numpy(index).to(rows.device)]
    return chosen.permute(1, 0, 2).contiguous()


def disentangled_attention(
    qkv: torch.Tensor, position_key: torch.Tensor, position_query: torch.Tensor, packing: Packing
) -> torch.Tensor:
    """Attend within each packed document.

    ``qkv`` holds queries, keys and values of all heads side by side: [tokens, 3 * heads * 64].
    """
    heads, rows, _ = position_key.shape
    width = heads * HEAD_WIDTH
    out = torch.empty((len(qkv), width), dtype=qkv.dtype, device=qkv.device)
    scale = math.log2(math.e) / math.sqrt(3 * HEAD_WIDTH)
    _kernel(qkv.dtype).launch(
        (packing.blocks, heads),
        128,
        [
            qkv,
            qkv[:, width:],
            qkv[:, 2 * width :],
            np.int64(qkv.stride(0)),
            position_key,
            position_query,
            np.int32(rows // 2),
            np.int32(rows // 2 - _MARGIN - 1),
            out,
            np.int64(width),
            packing.starts,
            packing.lengths,
            packing.first_queries,
            np.float32(scale),
        ],
    )
    return out
