"""Amounts of CPUs, GPUs and memory, as Ray counts them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.core.cluster import Node
from penstock.runtime.machine import GB


@dataclass(frozen=True)
class RayResources:
    """An amount of CPUs, GPUs and memory.

    >>> RayResources(4, 1, 16) - RayResources(1, 0.5)
    RayResources(cpus=3, gpus=0.5, memory_gb=16.0)
    """

    cpus: float = 0.0
    gpus: float = 0.0
    memory_gb: float = 0.0

    @classmethod
    def of(cls, node: Node) -> RayResources:
        """Return the resources of a machine."""
        return cls(node.cpus, float(len(node.gpus)), node.memory_gb)

    @classmethod
    def told(cls, resources: dict[str, float]) -> RayResources:
        """Return the resources in a table of Ray."""
        return cls(resources.get("CPU", 0.0), resources.get("GPU", 0.0), resources.get("memory", 0.0) / GB)

    def __add__(self, other: RayResources) -> RayResources:
        """Return the sum."""
        return RayResources(self.cpus + other.cpus, self.gpus + other.gpus, self.memory_gb + other.memory_gb)

    def __sub__(self, other: RayResources) -> RayResources:
        """Return the difference, which may be negative."""
        return RayResources(self.cpus - other.cpus, self.gpus - other.gpus, self.memory_gb - other.memory_gb)

    def within(self, other: RayResources) -> RayResources:
        """Return the minimum of two amounts for each resource, at least 0."""
        pairs = ((self.cpus, other.cpus), (self.gpus, other.gpus), (self.memory_gb, other.memory_gb))
        return RayResources(*(max(0.0, min(pair)) for pair in pairs))

    def cut(self, node: Node) -> Node:
        """Return a machine with only these resources; a GPU that is partly used by another job is not included."""
        return replace(node, cpus=self.cpus, gpus=node.gpus[: int(self.gpus)], memory_gb=self.memory_gb)
