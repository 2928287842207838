"""Encoders without padding give what the stock models of transformers give, for documents of any length."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

from penstock.models.packed_bert import PackedBert  # noqa: E402
from penstock.models.packed_deberta import PackedDeberta  # noqa: E402

# Around the borders of the kernel's tiles (32 keys, 128 queries) and past the last position bucket.
LENGTHS = [1, 2, 31, 32, 33, 127, 128, 129, 250, 513, 640, 700, 1000]


def outputs_differ_by(stock: Any, ours: Any) -> float:
    ids = torch.randint(5, 900, (sum(LENGTHS),), device="cuda")
    with torch.inference_mode():
        hidden = torch.split(ours(ids, LENGTHS).float(), LENGTHS)
        expected = [stock(part[None]).last_hidden_state[0] for part in torch.split(ids, LENGTHS)]
    return max(float((found - right).abs().max()) for found, right in zip(hidden, expected, strict=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("buckets", "positions"), [(256, 512), (32, 128)])
def test_packed_deberta_equals_the_stock_model(dtype: str, buckets: int, positions: int) -> None:
    torch.manual_seed(0)
    config = transformers.DebertaV2Config(
        vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256,
        max_position_embeddings=positions, type_vocab_size=0, relative_attention=True, position_buckets=buckets,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False,
    )  # fmt: skip
    stock = transformers.DebertaV2Model(config).eval().cuda()
    for layer in stock.encoder.layer:  # as initialised, positions hardly matter to the scores
        layer.attention.self.query_proj.weight.data *= 8
        layer.attention.self.key_proj.weight.data *= 8
    ours = PackedDeberta(config.to_dict(), stock.state_dict(), getattr(torch, dtype))
    assert outputs_differ_by(stock, ours) < {"float16": 0.01, "bfloat16": 0.08}[dtype]


def test_packed_bert_equals_the_stock_model() -> None:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=1024,
    )  # fmt: skip
    stock = transformers.BertModel(config, add_pooling_layer=False).eval().cuda()
    assert outputs_differ_by(stock, PackedBert(config.to_dict(), stock.state_dict())) < 0.02
    assert outputs_differ_by(stock, PackedBert(config.to_dict(), stock.state_dict(), exact_gelu=True)) < 0.01
