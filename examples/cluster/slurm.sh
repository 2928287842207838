#!/bin/bash
# Run one pipeline on four nodes: sbatch slurm.sh
# The same script starts on every node. SlurmRayClient joins them into one cluster, and only the first node continues.
#SBATCH --job-name=curate
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00

# The nodes find each other through a file in this folder, which must be shared by all of them.
export PENSTOCK_SLURM_DIR="$SLURM_SUBMIT_DIR"

srun python slurm_job.py /shared/crawl /shared/clean
