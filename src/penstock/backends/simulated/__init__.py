"""The simulated backend: the real scheduler in virtual time, with any cluster, service times and failures."""
