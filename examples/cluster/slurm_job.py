"""The pipeline of slurm.sh: python slurm_job.py INPUT OUTPUT. Outside of Slurm it runs on a Ray of this machine."""

import sys

from penstock import Pipeline, SlurmRayClient
from penstock.text import JsonlReader, JsonlWriter, ScoreFilter, WordCountFilter


def main(source: str, target: str) -> None:
    stages = [JsonlReader(source), ScoreFilter(WordCountFilter(min_words=5)), JsonlWriter(target)]
    with SlurmRayClient(include_dashboard=False):
        Pipeline("curate", stages=stages).run(checkpoint_path=f"{target}/_state")


if __name__ == "__main__":
    main(*sys.argv[1:])
