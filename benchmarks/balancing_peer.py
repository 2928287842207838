"""The peer part of balancing.py: run with a Python that has nemo-curator; prints one RESULT line.

Seven slots are seven CPUs here: the peer runs its stages on Ray, which is started with that many CPUs and a few more.
"""

from __future__ import annotations

import os
import sys
import time

import pandas as pd
import ray
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.base import ProcessingStage
from nemo_curator.stages.resources import Resources
from nemo_curator.tasks import DocumentBatch


class Sleeper(ProcessingStage):
    """Sleep for a fixed time."""

    resources = Resources(cpus=1.0)

    def __init__(self, name, seconds):  # noqa: ANN001, ANN204
        self.name = name
        self.seconds = seconds

    def inputs(self):  # noqa: ANN201, D102
        return [], []

    def outputs(self):  # noqa: ANN201, D102
        return [], []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Sleep."""
        time.sleep(self.seconds)
        return task


def make_executor(name: str):  # noqa: ANN201
    """Return one of the peer's three executors."""
    if name == "XennaExecutor":
        from nemo_curator.backends.xenna import XennaExecutor

        return XennaExecutor(config={"autoscale_interval_s": 5})
    if name == "RayDataExecutor":
        from nemo_curator.backends.ray_data import RayDataExecutor

        return RayDataExecutor()
    from nemo_curator.backends.ray_actor_pool import RayActorPoolExecutor

    return RayActorPoolExecutor()


def main() -> None:
    """Run the tasks on one executor, on its own Ray instance."""
    tasks, name = int(sys.argv[1]), sys.argv[2]
    # One of the executors asks Ray's dashboard about its actors, so there has to be one.
    context = ray.init("local", num_cpus=7, include_dashboard=True, logging_level="ERROR", log_to_driver=False)
    os.environ["RAY_ADDRESS"] = context.address_info["gcs_address"]
    stages = [Sleeper("fast", 0.25), Sleeper("slow", 1.0), Sleeper("medium", 0.5)]
    initial = [DocumentBatch(dataset_name="d", data=pd.DataFrame({"text": [str(i)]})) for i in range(tasks)]
    start = time.time()
    Pipeline(name="balancing", stages=stages).run(make_executor(name), initial_tasks=initial)
    print(f"RESULT {time.time() - start}", flush=True)


if __name__ == "__main__":
    main()
