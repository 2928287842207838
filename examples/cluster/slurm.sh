#!/bin/bash
# One pipeline over four nodes: sbatch slurm.sh
# The same script starts on every node; SlurmRayClient in it makes them one cluster, and only the first node goes on.
#SBATCH --job-name=curate
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00

# The nodes find each other through a file here: a folder that all of them see.
export PENSTOCK_SLURM_DIR="$SLURM_SUBMIT_DIR"

srun python slurm_job.py /shared/crawl /shared/clean
