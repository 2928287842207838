"""DeBERTa v2 and v3 on a GPU without padding: documents are packed one after another into one tensor of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import layer_norm, linear

from penstock.kernels.disentangled_attention import Packing, disentangled_attention, expand_positions
from penstock.kernels.encoder_triton import add_norm, gelu_in_place
from penstock.models.encoder_weights import EncoderWeights, Linear, Norm


@dataclass(frozen=True)
class _Layer:
    qkv: Linear
    position_key: torch.Tensor
    position_query: torch.Tensor
    attention_out: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    out_norm: Norm


class PackedDeberta:
    """The encoder of a DeBERTa checkpoint; ``weights`` are those of transformers' ``DebertaV2Model``.

    Matrix products run in ``dtype``, layer norms and softmax in float32.
    """

    def __init__(
        self, config: Mapping[str, Any], weights: Mapping[str, torch.Tensor], dtype: torch.dtype = torch.float16
    ) -> None:
        given = EncoderWeights(weights, dtype)
        self._eps = float(config["layer_norm_eps"])
        self._words = given.tensor("embeddings.word_embeddings.weight")
        self._first_norm = given.norm("embeddings.LayerNorm")
        positions = given.tensor("encoder.rel_embeddings.weight", torch.float32)
        if "layer_norm" in config.get("norm_rel_ebd", "none"):
            norm = given.norm("encoder.LayerNorm")
            positions = layer_norm(positions, positions.shape[-1:], norm.weight, norm.bias, self._eps)
        self._layers = [_layer(config, given, number, positions) for number in range(config["num_hidden_layers"])]

    def __call__(self, ids: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """Return the last hidden state of every token, documents one after another."""
        packing = Packing(lengths)
        x = add_norm(self._words[ids], None, self._first_norm.weight, self._first_norm.bias, self._eps)
        for layer in self._layers:
            attended = disentangled_attention(layer.qkv(x), layer.position_key, layer.position_query, packing)
            norm = layer.attention_norm
            x = add_norm(x, layer.attention_out(attended), norm.weight, norm.bias, self._eps)
            norm = layer.out_norm
            x = add_norm(x, layer.down(gelu_in_place(layer.up(x))), norm.weight, norm.bias, self._eps)
        return x


def _layer(config: Mapping[str, Any], given: EncoderWeights, number: int, positions: torch.Tensor) -> _Layer:
    at = f"encoder.layer.{number}"
    query, key, value = (f"{at}.attention.self.{part}_proj" for part in ("query", "key", "value"))

    def position_rows(part: str) -> torch.Tensor:
        # The same for every document, so they are projected once, in float32.
        rows = linear(
            positions, given.tensor(f"{part}.weight", torch.float32), given.tensor(f"{part}.bias", torch.float32)
        )
        heads, buckets = config["num_attention_heads"], config["position_buckets"]
        return expand_positions(rows, heads, buckets, config["max_position_embeddings"]).to(given.dtype)

    return _Layer(
        qkv=given.linear(query, key, value),
        position_key=position_rows(key),
        position_query=position_rows(query),
        attention_out=given.linear(f"{at}.attention.output.dense"),
        attention_norm=given.norm(f"{at}.attention.output.LayerNorm"),
        up=given.linear(f"{at}.intermediate.dense"),
        down=given.linear(f"{at}.output.dense"),
        out_norm=given.norm(f"{at}.output.LayerNorm"),
    )
