"""The machines a plan is made for, as data. The runtime layer detects the resources of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.resources import Resources


class Gpu(NamedTuple):
    """One GPU, described by its memory."""

    memory_gb: float
    name: str = "GPU"


@dataclass(frozen=True)
class Node:
    """One machine."""

    name: str
    cpus: float
    memory_gb: float
    gpus: tuple[Gpu, ...] = ()

    def why_not(self, need: Resources) -> str | None:
        """Return why one worker with these needs does not fit on the empty node, or None if it fits.

        >>> Node("n0", cpus=2, memory_gb=8).why_not(Resources(cpus=4))
        "node 'n0' has 2 CPUs"
        """
        if need.cpus > self.cpus:
            return f"node '{self.name}' has {self.cpus:g} CPUs"
        if need.memory_gb is not None and need.memory_gb > self.memory_gb:
            return f"node '{self.name}' has {self.memory_gb:.1f} GB of memory"
        if need.requires_gpu and not self.gpus:
            return f"node '{self.name}' has no GPU"
        if need.gpus > len(self.gpus):
            return f"node '{self.name}' has {len(self.gpus)} GPUs"
        if need.gpu_memory_gb and need.gpu_memory_gb > max(gpu.memory_gb for gpu in self.gpus):
            largest = max(gpu.memory_gb for gpu in self.gpus)
            return f"the largest GPU of node '{self.name}' has {largest:g} GB"
        return None


@dataclass(frozen=True)
class Cluster:
    """All the machines a run may use."""

    nodes: tuple[Node, ...]

    def why_not(self, need: Resources) -> str | None:
        """Return why one worker with these needs fits on no node, or None if it fits on one."""
        reasons = [node.why_not(need) for node in self.nodes]
        if any(reason is None for reason in reasons):
            return None
        return "; ".join(dict.fromkeys(reason for reason in reasons if reason)) or "the cluster has no node"

    def __str__(self) -> str:
        """Return the total resources in one line."""
        cpus = sum(node.cpus for node in self.nodes)
        gpus = sum(len(node.gpus) for node in self.nodes)
        memory = sum(node.memory_gb for node in self.nodes)
        where = "1 node" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes"
        return f"{where}, {cpus:g} CPUs, {memory:.1f} GB memory, {gpus} GPUs"
