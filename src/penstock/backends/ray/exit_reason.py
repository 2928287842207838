"""Explain how a worker ended, from Ray's error and the exit record of its machine."""

from __future__ import annotations

from ray.exceptions import RayActorError

from penstock.backends.ray.node_agent import ExitRecord
from penstock.backends.ray.remote_worker import RayWorkerHandle


def exit_reason(worker: RayWorkerHandle, death: BaseException | None, words: ExitRecord) -> tuple[str, bool]:
    """Return why a worker died, and whether another process may have ended it."""
    log = "".join(f"\n    | {line}" for line in words.log.splitlines())
    said = f"\n    its log ends with:{log}" if log else ""
    if worker.kill_reason:
        return worker.kill_reason, False
    if words.signal is not None:
        return f"the worker process was ended by {words.signal}{said}", False
    if not worker.is_up and not isinstance(death, RayActorError):
        return f"{type(death).__name__}: {death}{said}", False
    detail = str(death or "")
    if "runtime_env" in detail or "RuntimeEnv" in detail or "creation task" in detail:
        return f"{detail.strip().splitlines()[-1]}{said}", False
    if "memory" in detail and "OutOfMemory" in type(death).__name__ + detail:
        return f"the worker was ended by Ray because its machine ran out of memory{said}", True
    return f"the worker process ended without a message (killed, out of memory, or os._exit){said}", True
