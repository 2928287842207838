"""The peer part of dedup.py: datatrove's MinHash deduplication and polars' unique, in their own environment."""

from __future__ import annotations

import sys
import time


def minhash(source: str, work: str) -> None:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import (
        MinhashConfig,
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
    )
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.hashing import HashConfig

    config = MinhashConfig(hash_config=HashConfig(precision=64), num_buckets=14, hashes_per_bucket=8, n_grams=5)
    reader = JsonlReader(source)
    steps = [
        ([reader, MinhashDedupSignature(output_folder=f"{work}/sigs", config=config, language="en")], 8),
        ([MinhashDedupBuckets(input_folder=f"{work}/sigs", output_folder=f"{work}/buckets", config=config)], 14),
        ([MinhashDedupCluster(input_folder=f"{work}/buckets", output_folder=f"{work}/remove", config=config)], 1),
        ([reader, MinhashDedupFilter(input_folder=f"{work}/remove"), JsonlWriter(f"{work}/out", compression=None)], 8),
    ]
    for number, (pipeline, tasks) in enumerate(steps):
        LocalPipelineExecutor(pipeline=pipeline, tasks=tasks, workers=2, logging_dir=f"{work}/logs{number}").run()
    from pathlib import Path

    kept = sum(sum(1 for _ in path.open()) for path in Path(f"{work}/out").glob("*.jsonl"))
    print(f"{kept:,} kept")


def unique(source: str, target: str) -> None:
    import polars as pl

    start = time.perf_counter()
    frame = pl.read_parquet(f"{source}/*.parquet")
    kept = frame.unique(subset=["text"], keep="first", maintain_order=True)
    kept.write_parquet(target, compression="snappy")
    print(f"{len(frame) - len(kept):,} removed in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    {"minhash": minhash, "unique": unique}[sys.argv[1]](*sys.argv[2:])
