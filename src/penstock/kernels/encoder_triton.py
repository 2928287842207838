"""Element-wise parts of an encoder on a GPU, each one pass over memory: residual and layer norm, GELU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _add_norm(x, y, weight, bias, out, width, eps, BLOCK: tl.constexpr, HAS_Y: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < width
    value = tl.load(x + row * width + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_Y:
        value += tl.load(y + row * width + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, 0) / width
    centred = tl.where(inside, value - mean, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / width + eps)
    scaled = centred * inverse * tl.load(weight + at, mask=inside, other=0.0) + tl.load(
        bias + at, mask=inside, other=0.0
    )
    tl.store(out + row * width + at, scaled.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _gelu(x, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count, other=0.0).to(tl.float32)
    value = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    tl.store(x + at, value.to(x.dtype.element_ty), mask=at < count)


def add_norm(
    x: torch.Tensor, y: torch.Tensor | None, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> torch.Tensor:
    """Return the layer norm of ``x + y``, computed in float32."""
    out = torch.empty_like(x)
    width = x.shape[-1]
    _add_norm[(len(x),)](
        x, x if y is None else y, weight, bias, out, width, eps,
        BLOCK=triton.next_power_of_2(width), HAS_Y=y is not None, num_warps=4,
    )  # fmt: skip
    return out


def gelu_in_place(x: torch.Tensor) -> torch.Tensor:
    """Apply the exact GELU."""
    _gelu[(triton.cdiv(x.numel(), 4096),)](x, x.numel(), BLOCK=4096, num_warps=8)
    return x
