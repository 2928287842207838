"""Where workers live: on this machine, on a cluster, or in a simulation. All are driven by the same scheduler."""
