"""Check that MinHash signatures on a GPU equal those of the CPU, and measure their speed.

    python benchmarks/minhash_gpu.py DATA.parquet [DATA.parquet …]

Character 24-grams, 260 permutations, 32 bits unless stated. The limit: one multiply-add and one minimum per byte and
permutation, so 520 integer operations per byte; an H200 does about 14.8 * 10^12 multiply-adds of 32 bits a
second (132 multiprocessors, 64 a clock, 1.75 GHz) and as many minima in parallel: at most 57 GB/s.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from penstock.kernels.minhash import permutations, signatures
from penstock.kernels.minhash_gpu import GpuMinHash
from penstock.kernels.shingles import Shingling
from penstock.kernels.text_buffer import text_buffer

SHINGLING = Shingling(24)
_LIMIT_GB_S = 57


def texts_of(path: str) -> pa.Array:
    column = pq.read_table(path, columns=["text"])["text"].cast(pa.large_string())
    return pa.concat_arrays(column.chunks)


def compare(paths: list[str]) -> None:
    """Compute the signature of every document on both devices and compare."""
    for bits, count in ((32, 260), (64, 112)):
        chosen = permutations(count, bits=bits)
        device = GpuMinHash(SHINGLING, chosen)
        for path in paths:
            texts = texts_of(path)
            expected, shingled = signatures(texts, SHINGLING, chosen)
            found, shingled_there = device.signatures(texts)
            same = bool((expected == found).all()) and bool((shingled == shingled_there).all())
            print(
                f"{count} x {bits} bit, {path}: {len(texts):,} documents {'equal, bit for bit' if same else 'DIFFER'}"
            )


def measure(path: str) -> None:
    """Time the signatures of a gigabyte of text in device memory, in pinned host memory and in ordinary memory."""
    once = texts_of(path)
    texts = pa.concat_arrays([once] * max(1, -(-(10**9) // once.nbytes)))
    data, offsets = (torch.from_numpy(np.array(part)) for part in text_buffer(texts))
    for bits, count in ((32, 260), (32, 112), (64, 260)):
        device = GpuMinHash(SHINGLING, permutations(count, bits=bits))
        there = data.cuda(), offsets.cuda()
        pinned = data.pin_memory(), offsets.pin_memory()
        ways = {
            "text on the device": lambda there=there, device=device: device.on_device(*there),
            "from pinned memory, copies overlapped": lambda pinned=pinned, device=device: device.from_host(*pinned),
            "from ordinary memory": lambda device=device: device.from_host(data, offsets),
        }
        for way, sign in ways.items():
            for _ in range(2):
                sign()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(5):
                sign()
            torch.cuda.synchronize()
            rate = 5 * len(data) / (time.perf_counter() - start) / 1e9
            limit = f", {rate / _LIMIT_GB_S:.2f} of the limit" if (bits, count) == (32, 260) else ""
            print(f"{count} x {bits} bit, {way}: {rate:.1f} GB/s{limit}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="Parquet files with a column 'text'; speed is measured on the first")
    given = parser.parse_args()
    compare(given.data)
    measure(given.data[0])
