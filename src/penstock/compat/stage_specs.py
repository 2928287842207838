"""Translate ``xenna_stage_spec`` and ``ray_stage_spec`` into the worker limits of a stage.

Scripts written for NeMo Curator pass them to ``with_`` or define them as methods of a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def from_xenna(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the worker limits in an ``xenna_stage_spec``. Keys without a counterpart here are ignored.

    >>> from_xenna({"worker_max_lifetime_m": 60, "slots_per_actor": 2})
    {'max_worker_lifetime_s': 3600.0}
    """
    if "num_workers" in spec:
        raise ValueError("num_workers does not belong in xenna_stage_spec. Write with_(num_workers=…).")
    limits: dict[str, Any] = {}
    if spec.get("worker_max_lifetime_m"):
        limits["max_worker_lifetime_s"] = 60.0 * spec["worker_max_lifetime_m"]
    if spec.get("worker_restart_interval_m"):
        limits["worker_restart_interval_s"] = 60.0 * spec["worker_restart_interval_m"]
    if spec.get("worker_max_growth_gb") is not None:
        limits["max_worker_growth_gb"] = spec["worker_max_growth_gb"]
    return limits


def from_ray(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the worker limits in a ``ray_stage_spec``. Keys without a counterpart here are ignored.

    >>> from_ray({"max_calls_per_worker": 3, "is_actor_stage": True})
    {'max_tasks_per_worker': 3}
    """
    calls = spec.get("max_calls_per_worker")
    return {"max_tasks_per_worker": calls} if calls else {}


STAGE_SPECS: dict[str, Callable[[Any], dict[str, Any]]] = {"xenna_stage_spec": from_xenna, "ray_stage_spec": from_ray}
