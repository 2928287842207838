"""BERT-like encoders on a GPU without padding: MiniLM, BERT, RoBERTa, XLM-RoBERTa, BGE, E5, GTE and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

from penstock.kernels.encoder_triton import add_norm, gelu_in_place
from penstock.models.encoder_weights import EncoderWeights, Linear, Norm


@dataclass(frozen=True)
class _Layer:
    qkv: Linear
    attention_out: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    out_norm: Norm


class PackedBert:
    """The encoder of a BERT-like checkpoint; ``weights`` are those of transformers' ``BertModel``.

    Matrix products run in ``dtype``, layer norms and softmax in float32. With ``exact_gelu=False`` GELU is computed in
    its tanh form inside the matrix product, which saves one pass over memory.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, torch.Tensor],
        dtype: torch.dtype = torch.float16,
        *,
        exact_gelu: bool = False,
    ) -> None:
        given = EncoderWeights(weights, dtype)
        self._heads = int(config["num_attention_heads"])
        self._eps = float(config["layer_norm_eps"])
        self._exact_gelu = exact_gelu
        # RoBERTa counts positions from the padding index on.
        self._first_position = config["pad_token_id"] + 1 if "roberta" in config["model_type"] else 0
        self._words = given.tensor("embeddings.word_embeddings.weight")
        types = given.tensor("embeddings.token_type_embeddings.weight", torch.float32)[0]
        positions = given.tensor("embeddings.position_embeddings.weight", torch.float32)
        self._positions = (positions + types).to(dtype)
        self._first_norm = given.norm("embeddings.LayerNorm")
        self._layers = [_layer(given, number) for number in range(config["num_hidden_layers"])]

    def __call__(self, ids: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """Return the last hidden state of every token, documents one after another."""
        sizes = np.asarray(lengths, dtype=np.int32)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        places = np.arange(ends[-1], dtype=np.int64) - np.repeat(ends[:-1], sizes) + self._first_position
        bounds, positions = (
            torch.from_numpy(part).pin_memory().to("cuda", non_blocking=True) for part in (ends, places)
        )
        longest = int(sizes.max())
        is_even = bool((sizes == longest).all())
        x = add_norm(
            self._words[ids], self._positions[positions], self._first_norm.weight, self._first_norm.bias, self._eps
        )
        for layer in self._layers:
            attended = self._attend(layer.qkv(x), bounds, longest, is_even=is_even)
            norm = layer.attention_norm
            x = add_norm(x, layer.attention_out(attended), norm.weight, norm.bias, self._eps)
            inner = gelu_in_place(layer.up(x)) if self._exact_gelu else layer.up.with_gelu(x)
            norm = layer.out_norm
            x = add_norm(x, layer.down(inner), norm.weight, norm.bias, self._eps)
        return x

    def _attend(self, qkv: torch.Tensor, bounds: torch.Tensor, longest: int, *, is_even: bool) -> torch.Tensor:
        parts = qkv.view(len(qkv), 3, self._heads, -1)
        if is_even:  # documents cut at the same length: cuDNN's kernel is faster, and takes no others
            q, k, v = parts.view(-1, longest, 3, self._heads, parts.shape[-1]).permute(2, 0, 3, 1, 4)
            with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
                return scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(len(qkv), -1)
        q, k, v = parts.unbind(1)
        return varlen_attn(q, k, v, bounds, bounds, longest, longest).flatten(1)


def _layer(given: EncoderWeights, number: int) -> _Layer:
    at = f"encoder.layer.{number}"
    return _Layer(
        qkv=given.linear(*(f"{at}.attention.self.{part}" for part in ("query", "key", "value"))),
        attention_out=given.linear(f"{at}.attention.output.dense"),
        attention_norm=given.norm(f"{at}.attention.output.LayerNorm"),
        up=given.linear(f"{at}.intermediate.dense"),
        down=given.linear(f"{at}.output.dense"),
        out_norm=given.norm(f"{at}.output.LayerNorm"),
    )
