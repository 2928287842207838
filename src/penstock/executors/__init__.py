"""Executors: run a pipeline in this process, or with worker processes on one machine or a cluster."""
