"""The executors users know, each with its own settings; all of them are the one that balances."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from penstock.executors.streaming import StreamingExecutor

# Settings that say how another engine is to do what is done by itself here.
_NOT_NEEDED = {
    "max_workers_per_stage": "worker counts follow from what stages need; fix one with with_(num_workers=…)",
    "reserved_cpus": "cpu_allocation_percentage leaves a share of the cores alone",
    "reserved_gpus": "GPUs that are to be left alone are hidden with CUDA_VISIBLE_DEVICES or ray start --num-gpus",
    "resource_wait_timeout_s": "a run waits for resources as long as it takes",
    "resource_wait_interval_s": "a run waits for resources as long as it takes",
}


class XennaExecutor(StreamingExecutor):
    """The streaming executor under the name users know; it takes the same settings.

    >>> XennaExecutor(config={"execution_mode": "batch"}).__class__.__mro__[1].__name__
    'StreamingExecutor'
    """

    def __init__(self, config: dict[str, Any] | None = None, ignore_head_node: bool = False) -> None:
        settings, runtime_env = _taken(config)
        super().__init__(settings, ignore_head_node=ignore_head_node, runtime_env=runtime_env)


class RayDataExecutor(StreamingExecutor):
    """The streaming executor under the name users know: results go on as they come.

    >>> RayDataExecutor(ignore_head_node=True).last_summary is None
    True
    """

    def __init__(self, config: dict[str, Any] | None = None, ignore_head_node: bool = False) -> None:
        settings, runtime_env = _taken(config)
        super().__init__(settings, ignore_head_node=ignore_head_node, runtime_env=runtime_env)


class RayActorPoolExecutor(StreamingExecutor):
    """The streaming executor under the name users know: each stage begins when the one before it has ended.

    >>> RayActorPoolExecutor({"reserved_cpus": 0.0}, show_progress=False)._config["execution_mode"]
    'batch'
    """

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        ignore_head_node: bool = False,
        show_progress: bool = True,
        progress_interval: float = 10.0,
    ) -> None:
        settings, runtime_env = _taken(config)
        settings = {"execution_mode": "batch", "logging_interval": progress_interval, **settings}
        super().__init__(
            settings, ignore_head_node=ignore_head_node, runtime_env=runtime_env, show_progress=show_progress
        )


def _taken(config: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Sort settings: ours, Ray's environment, and those that mean nothing here, of which the user is told."""
    settings = dict(config or {})
    runtime_env = settings.pop("runtime_env", None)
    for key in [key for key in settings if key in _NOT_NEEDED]:
        if settings.pop(key):
            warnings.warn(f"the setting '{key}' has no effect: {_NOT_NEEDED[key]}.", stacklevel=3)
    return settings, runtime_env or None
