"""Executors of ``nemo_curator``: the streaming executor of Penstock under their names, with their settings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from penstock.executors.streaming import StreamingExecutor

# Settings of other engines that Penstock does not need, with the reason shown in a warning.
_NOT_NEEDED = {
    "max_workers_per_stage": "worker counts follow from measured speeds; set a fixed count with with_(num_workers=…)",
    "reserved_cpus": "use cpu_allocation_percentage to leave a share of the cores free",
    "reserved_gpus": "use CUDA_VISIBLE_DEVICES or ray start --num-gpus to keep GPUs free",
    "resource_wait_timeout_s": "a run waits for resources as long as it takes",
    "resource_wait_interval_s": "a run waits for resources as long as it takes",
}


class XennaExecutor(StreamingExecutor):
    """Run a pipeline with the streaming executor; accepts the settings of ``nemo_curator``'s XennaExecutor.

    >>> XennaExecutor(config={"execution_mode": "batch"}).__class__.__mro__[1].__name__
    'StreamingExecutor'
    """

    def __init__(self, config: dict[str, Any] | None = None, ignore_head_node: bool = False) -> None:
        settings, runtime_env = _taken(config)
        super().__init__(settings, ignore_head_node=ignore_head_node, runtime_env=runtime_env)


class RayDataExecutor(StreamingExecutor):
    """Run a pipeline with the streaming executor; accepts the settings of ``nemo_curator``'s RayDataExecutor.

    >>> RayDataExecutor(ignore_head_node=True).last_summary is None
    True
    """

    def __init__(self, config: dict[str, Any] | None = None, ignore_head_node: bool = False) -> None:
        settings, runtime_env = _taken(config)
        super().__init__(settings, ignore_head_node=ignore_head_node, runtime_env=runtime_env)


class RayActorPoolExecutor(StreamingExecutor):
    """Run a pipeline stage by stage: each stage begins when the stage before it has ended.

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
    """Return the settings and the ``runtime_env``; warn about settings that have no effect."""
    settings = dict(config or {})
    runtime_env = settings.pop("runtime_env", None)
    for key in [key for key in settings if key in _NOT_NEEDED]:
        if settings.pop(key):
            warnings.warn(f"the setting '{key}' has no effect: {_NOT_NEEDED[key]}.", stacklevel=3)
    return settings, runtime_env or None
