"""Run unchanged ``nemo_curator`` scripts on Penstock."""
