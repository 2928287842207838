"""The peer part of text_filters.py and ray_backend.py: run with a Python that has nemo-curator; prints one line.

The line has ``SECONDS`` with and without start-up. The argument is a JSON list of source folder, target folder,
filters, cores and the name of one of the peer's executors.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time

import ray
from balancing_peer import make_executor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.text.filters.score_filter import ScoreFilter
from nemo_curator.stages.text.io.reader import JsonlReader
from nemo_curator.stages.text.io.writer import JsonlWriter

_HOME = "nemo_curator.stages.text.filters.heuristic."


def main() -> None:
    """Read, filter and write, on its own Ray instance."""
    source, target, filters, cores, executor = json.loads(sys.argv[1])
    start = time.perf_counter()
    # One of the executors asks Ray's dashboard about its actors, so there has to be one.
    context = ray.init("local", num_cpus=cores, include_dashboard=True, logging_level="ERROR", log_to_driver=False)
    os.environ["RAY_ADDRESS"] = context.address_info["gcs_address"]
    made = [getattr(importlib.import_module(_HOME + module), name)(**given) for module, name, given in filters]
    stages = [JsonlReader(source, files_per_partition=1), ScoreFilter(made), JsonlWriter(target)]
    pipeline = Pipeline("peer", stages=stages)
    ready = time.perf_counter()
    pipeline.run(make_executor(executor))
    end = time.perf_counter()
    print(f"SECONDS {end - start} {end - ready}", flush=True)


if __name__ == "__main__":
    main()
