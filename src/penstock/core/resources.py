"""The resources that one worker of a stage needs."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """The resources of one worker of a stage. The scheduler decides the number of workers.

    ``gpus`` may be a share of one GPU (0.25) or a whole number of GPUs (2). ``gpu_memory_gb`` asks for
    memory on one GPU instead; it becomes a share of the GPU that the worker is placed on.
    ``memory_gb`` bounds the host memory of a worker.

    >>> Resources(cpus=4.0, gpu_memory_gb=16.0).gpu_share(device_memory_gb=80.0)
    0.2
    >>> str(Resources(gpus=2))
    '1 CPU, 2 GPUs'
    """

    cpus: float = 1.0
    gpu_memory_gb: float = 0.0
    gpus: float = 0.0
    memory_gb: float | None = None

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for values that are not possible."""
        for field in ("cpus", "gpu_memory_gb", "gpus", "memory_gb"):
            value = getattr(self, field)
            if value is None and field == "memory_gb":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"Resources({field}={value!r}): expected a number, got {type(value).__name__}.")
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"Resources({field}={value!r}): expected a finite number that is not negative.")
        if self.memory_gb == 0:
            raise ValueError("Resources(memory_gb=0): a worker needs some memory; leave it out for no bound.")
        if self.gpus and self.gpu_memory_gb:
            raise ValueError(
                f"Resources(gpus={self.gpus}, gpu_memory_gb={self.gpu_memory_gb}): give one or the other. "
                "gpus counts devices or a share of one; gpu_memory_gb reserves memory on one device."
            )
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ValueError(
                f"Resources(gpus={self.gpus}): a worker takes a share of one GPU (at most 1.0) or whole GPUs. "
                f"Ask for {math.floor(self.gpus)} or {math.ceil(self.gpus)}."
            )

    @property
    def requires_gpu(self) -> bool:
        """Whether a worker needs a GPU at all."""
        return self.gpus > 0 or self.gpu_memory_gb > 0

    def gpu_share(self, device_memory_gb: float) -> float:
        """Return how many GPUs of that size a worker takes; a share is never rounded."""
        return self.gpu_memory_gb / device_memory_gb if self.gpu_memory_gb else self.gpus

    def __str__(self) -> str:
        """Return the resources as a plan prints them."""
        parts = [_count(self.cpus, "CPU")]
        if self.gpus:
            parts.append(_count(self.gpus, "GPU"))
        if self.gpu_memory_gb:
            parts.append(f"{self.gpu_memory_gb:g} GB of one GPU")
        if self.memory_gb is not None:
            parts.append(f"{self.memory_gb:g} GB memory")
        return ", ".join(parts)


def _count(number: float, noun: str) -> str:
    return f"{number:g} {noun}" + ("" if number <= 1 else "s")
