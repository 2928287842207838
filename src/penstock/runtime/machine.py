"""Find the cores, memory and GPUs of this machine that this process may use."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import psutil

from penstock.core.cluster import Cluster, Gpu, Node
from penstock.extras import require

GB = 10**9
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def this_machine(cpus: float | None = None, gpus: int | None = None, gpu_memory_gb: float | None = None) -> Cluster:
    """Describe this machine as a cluster of one node; arguments replace the detected values."""
    claimed = Gpu(gpu_memory_gb or 80.0, "claimed GPU")
    found = find_gpus() if gpus is None else (claimed,) * gpus
    node = Node("this machine", usable_cpus() if cpus is None else cpus, usable_memory() / GB, found)
    return Cluster((node,))


def usable_cpus() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_memory() -> int:
    """Return the memory in bytes that this process may use: of the machine, or of its container if that is less."""
    total = int(psutil.virtual_memory().total)
    for path in _CGROUP_LIMITS:
        try:
            limit = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if limit.isdigit():
            total = min(total, int(limit))
    return total


def find_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that the NVIDIA driver reports; none without the driver or without `penstock[gpu]`."""
    if find_spec("pynvml") is None:
        return ()
    nvml = require("pynvml", "gpu", "Finding GPUs")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        return tuple(Gpu(nvml.nvmlDeviceGetMemoryInfo(h).total / GB, str(nvml.nvmlDeviceGetName(h))) for h in handles)
    finally:
        nvml.nvmlShutdown()
