"""Signatures computed on a GPU equal those of the CPU, bit for bit."""

import pyarrow as pa
import pytest

from penstock.kernels.minhash import permutations, signatures
from penstock.kernels.shingles import Shingling

torch = pytest.importorskip("torch", reason="needs torch and a GPU")
pytest.importorskip("triton", reason="needs Triton and a GPU")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU on this machine", allow_module_level=True)

TEXTS = [
    "", None, "a" * 23, "a" * 24, "é" * 24, "é" * 23 + "x", "日本語" * 9, "x" * 100_000, "👍🏽" * 30, "a" * 40 + "é",
    *(f"{i} The quick brown fox jumps over the lazy dög, and again " * (1 + i % 7) for i in range(500)),
]  # fmt: skip


@pytest.mark.parametrize(("bits", "count"), [(32, 260), (64, 112), (32, 7)])
@pytest.mark.parametrize("width", [5, 24])
def test_signatures_equal_those_of_the_cpu(bits: int, count: int, width: int) -> None:
    from penstock.kernels.minhash_gpu import GpuMinHash

    texts = pa.array(TEXTS, pa.large_string())
    chosen = permutations(count, bits=bits)
    expected, shingled = signatures(texts, Shingling(width), chosen)
    found, found_shingled = GpuMinHash(Shingling(width), chosen).signatures(texts)
    assert (expected == found).all()
    assert (shingled == found_shingled).all()
