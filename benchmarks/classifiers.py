"""Encoders on a GPU: documents per second of ours and of the usual ways, in one run.

    python benchmarks/classifiers.py deberta LENGTHS.npy [--peers FOLDER]
    python benchmarks/classifiers.py embedders LENGTHS.npy

LENGTHS.npy holds the number of tokens of each document (``make_lengths`` below writes one from a Parquet file). Weights
are random and of the real size; a model's speed does not depend on them. With ``--peers`` and a folder that has the
package ``disentangled_flash`` (its unpacked wheel), that library is measured too.

The limit of DeBERTa-v3-base at 569 tokens per document: 97 GFLOP in linear layers, 19 in the two products of attention
and 13 in those with positions, 129 together; at the measured 773 TFLOP/s of matrix products 6,000 documents per second.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import BertConfig, BertModel, DebertaV2Config, DebertaV2Model

from penstock.models.packed_bert import PackedBert
from penstock.models.packed_deberta import PackedDeberta
from penstock.models.packing import pack

Lengths = npt.NDArray[np.int64]
_VOCABULARY = 30_000


def make_lengths(parquet: str, target: str, documents: int = 8192) -> None:
    """Write about how many tokens documents have: a quarter of their characters."""
    import pyarrow.parquet as pq

    texts = pq.read_table(parquet, columns=["text"])["text"][:documents]
    np.save(target, np.array([max(2, len(text.as_py()) // 4) for text in texts]))


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """Return the median time of some work on the GPU."""
    work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return float(np.median(times))


def tokens(count: int) -> torch.Tensor:
    return torch.randint(5, _VOCABULARY, (count,), device="cuda")


def packed(
    model: Callable[[torch.Tensor, Sequence[int]], torch.Tensor], lengths: Lengths, budget: int
) -> Callable[[], None]:
    """Return the work of a model that takes packed documents."""
    batches = [(tokens(int(lengths[rows].sum())), lengths[rows].tolist()) for rows in pack(lengths, budget)]

    def work() -> None:
        for ids, sizes in batches:
            model(ids, sizes)

    return work


def padded(model: Any, groups: Sequence[Lengths], width: int | None, *, autocast: bool) -> Callable[[], None]:  # noqa: ANN401
    """Return the work of a stock model on groups of rows, padded to a width or to the longest of the group."""
    batches = []
    for group in groups:
        wide = width or int(group.max())
        mask = (torch.arange(wide)[None] < torch.from_numpy(group)[:, None]).to("cuda", torch.long)
        batches.append((torch.randint(5, _VOCABULARY, (len(group), wide), device="cuda") * mask, mask))

    def work() -> None:
        with torch.autocast("cuda", torch.float16, enabled=autocast):
            for ids, mask in batches:
                model(input_ids=ids, attention_mask=mask)

    return work


def in_rows(lengths: Lengths, rows: int) -> list[Lengths]:
    return [lengths[first : first + rows] for first in range(0, len(lengths), rows)]


def sorted_within(lengths: Lengths, group: int, rows: int) -> list[Lengths]:
    """Return rows sorted by length within groups: what a worker that sees one task at a time can do."""
    return [part for chunk in in_rows(lengths, group) for part in in_rows(np.sort(chunk)[::-1].copy(), rows)]


def report(name: str, documents: int, taken: float, baseline: float | None = None) -> float:
    rate = documents / taken
    print(f"{name:<68} {rate:>9,.0f} docs/s" + (f"   {rate / baseline:.2f} x" if baseline else ""), flush=True)
    return rate


def deberta(lengths: Lengths, peers: str | None) -> None:
    lengths = np.minimum(lengths, 1024)
    config = DebertaV2Config(
        vocab_size=128_100, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        max_position_embeddings=512, type_vocab_size=0, relative_attention=True, position_buckets=256,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False,
        layer_norm_eps=1e-7,
    )  # fmt: skip
    torch.manual_seed(0)
    stock = DebertaV2Model(config).eval().cuda()
    for layer in stock.encoder.layer:  # as initialised, positions and contents hardly matter to the scores
        layer.attention.self.query_proj.weight.data *= 4
        layer.attention.self.key_proj.weight.data *= 4
    ours = PackedDeberta(config.to_dict(), stock.state_dict())
    print(f"DeBERTa-v3-base, {len(lengths):,} documents, {lengths.mean():.0f} tokens each, at most 1,024")
    compare(stock, ours)
    few = lengths[:1024]
    report(
        "padded to 1,024, 256 rows, fp16 autocast",
        len(few),
        seconds(padded(stock, in_rows(few, 256), 1024, autocast=True), 1),
    )
    incumbent = report(
        "sorted within 1,000, 256 rows, padded to the longest, fp16 autocast",
        2000,
        seconds(padded(stock, sorted_within(lengths[:2000], 1000, 256), None, autocast=True), 1),
    )
    if peers:
        deberta_peers(peers, stock, lengths, incumbent)
    for budget in (65_536, 262_144):
        report(f"Penstock, packed, {budget:,} tokens", len(lengths), seconds(packed(ours, lengths, budget)), incumbent)


def compare(stock: DebertaV2Model, ours: PackedDeberta) -> None:
    """Compare logits of a random head with those of the stock model in float32."""
    head = torch.randn(768, 26, device="cuda") * 0.02
    lengths = [1, 2, 31, 32, 33, 127, 128, 129, 400, 640, 700, 1000, 1024]
    ids = tokens(sum(lengths))
    hidden, start, worst = ours(ids, lengths), 0, 0.0
    for length in lengths:
        expected = stock(ids[None, start : start + length]).last_hidden_state[0, 0] @ head
        worst = max(worst, float((hidden[start].float() @ head - expected).abs().max()))
        start += length
    print(f"logits differ from stock float32 by at most {worst:.4f} (documents of 1 to 1,024 tokens)")


def deberta_peers(folder: str, stock: DebertaV2Model, lengths: Lengths, incumbent: float) -> None:
    """Measure the packed encoder of disentangled-flash with the same weights and batches, in float16."""
    sys.path.insert(0, folder)
    from disentangled_flash import optimize_deberta  # type: ignore[import-not-found]

    model = copy.deepcopy(stock).half()
    optimize_deberta(model)

    def run(ids: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
        bounds = torch.tensor(np.concatenate([[0], np.cumsum(sizes)]), dtype=torch.int32, device="cuda")
        words = model.embeddings(input_ids=ids[None])[0]
        hidden = model.encoder.forward_packed(words, bounds, max(sizes), output_hidden_states=False)
        return torch.as_tensor(hidden.last_hidden_state)

    report(
        "disentangled-flash 1.1.1, packed, 262,144 tokens",
        len(lengths),
        seconds(packed(run, lengths, 262_144)),
        incumbent,
    )


def embedders(lengths: Lengths) -> None:
    small = BertConfig(
        vocab_size=30_522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    large = BertConfig(
        vocab_size=170_000, hidden_size=768, num_hidden_layers=24, num_attention_heads=12, intermediate_size=3072
    )
    models = {"MiniLM-L6": (256, small), "24 layers of 768, 300M parameters": (512, large)}
    for name, (longest, config) in models.items():
        torch.manual_seed(0)
        stock = BertModel(config, add_pooling_layer=False).eval().cuda()
        ours = PackedBert(config.to_dict(), stock.state_dict())
        cut = np.minimum(lengths, longest)
        ordered = np.sort(cut)[::-1].copy()
        print(f"{name}: {len(cut):,} documents, {cut.mean():.0f} tokens each, at most {longest}")
        compare_pooled(stock, ours, longest)
        few = ordered[:: max(1, len(ordered) // 1024)]
        report(
            "stock, sorted, fp32, 32 rows", len(few), seconds(padded(stock, in_rows(few, 32), None, autocast=False), 1)
        )
        half = stock.half()
        stock_rate = report(
            "stock, sorted, fp16, 1,024 rows",
            len(ordered),
            seconds(padded(half, in_rows(ordered, 1024), None, autocast=False)),
        )
        for budget in (65_536, 262_144):
            report(f"Penstock, packed, {budget:,} tokens", len(cut), seconds(packed(ours, cut, budget), 5), stock_rate)


def compare_pooled(stock: BertModel, ours: PackedBert, longest: int) -> None:
    """Compare mean-pooled embeddings with those of the stock model in float32."""
    lengths = [3, 17, 100, longest]
    ids = tokens(sum(lengths))
    hidden, start, worst = ours(ids, lengths), 0, 1.0
    for length in lengths:
        expected = stock(ids[None, start : start + length]).last_hidden_state[0].mean(0)
        found = hidden[start : start + length].float().mean(0)
        worst = min(worst, float(torch.cosine_similarity(found, expected, dim=0)))
        start += length
    print(f"cosine to stock float32 at least {worst:.7f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("deberta", "embedders"))
    parser.add_argument("lengths")
    parser.add_argument("--peers")
    given = parser.parse_args()
    with torch.inference_mode():
        if given.what == "deberta":
            deberta(np.load(given.lengths), given.peers)
        else:
            embedders(np.load(given.lengths))
