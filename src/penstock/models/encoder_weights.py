"""Weights of an encoder on a GPU: linear layers, several of them side by side, and layer norms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn.functional import linear


@dataclass(frozen=True)
class Linear:
    """A linear layer."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it."""
        return linear(x, self.weight, self.bias)

    def with_gelu(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it and the tanh form of GELU, in one pass."""
        return torch.ops.aten._addmm_activation(self.bias, x, self.weight.t(), use_gelu=True)


@dataclass(frozen=True)
class Norm:
    """A layer norm, in float32."""

    weight: torch.Tensor
    bias: torch.Tensor


class EncoderWeights:
    """The tensors of a checkpoint, moved to the GPU when they are asked for."""

    def __init__(self, weights: Mapping[str, torch.Tensor], dtype: torch.dtype) -> None:
        self._weights = weights
        self.dtype = dtype

    def tensor(self, name: str, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return one tensor, in the type of the matrix products unless told otherwise."""
        return self._weights[name].to("cuda", dtype or self.dtype)

    def linear(self, *names: str) -> Linear:
        """Return a linear layer; of several names, one that does the work of all of them side by side."""
        return Linear(
            torch.cat([self.tensor(f"{name}.weight") for name in names]),
            torch.cat([self.tensor(f"{name}.bias") for name in names]),
        )

    def norm(self, name: str) -> Norm:
        """Return a layer norm."""
        return Norm(self.tensor(f"{name}.weight", torch.float32), self.tensor(f"{name}.bias", torch.float32))
