"""Backends: run workers on this machine, on a Ray cluster, or in a simulation, driven by the same scheduler."""
