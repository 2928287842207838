"""Store the measured speed of stages in the user's cache folder, so that the next run starts balanced.

A speed is valid for the same stage code with the same parameters, in the same pool, on the same hardware. It is only a
hint: without the file, or with an old or damaged one, the run starts without estimates.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec

from penstock.core.cluster import Cluster
from penstock.core.printable import printable
from penstock.core.stage import ProcessingStage
from penstock.errors import OutputError
from penstock.plan.plan import Plan, Pool
from penstock.runtime.fingerprint import fingerprint
from penstock.storage.atomic import atomic_write
from penstock.storage.user_cache import temporary_cache, user_cache

# Increased when the meaning of an entry changes: older files are not read then.
_VERSION = 1
_MAX_STORED_POOLS = 500


@dataclass(frozen=True)
class Speed:
    """The measured speed of one pool."""

    seconds_per_item: float
    # Output items, and output bytes, per input item.
    fan_out: float
    output_bytes: float
    start_up_s: float | None = None


@dataclass(frozen=True)
class _Version:
    version: int


@dataclass(frozen=True)
class _File(_Version):
    pools: dict[str, Speed]


def speeds_file() -> Path:
    """Return the file of the stored speeds, in a folder that may be deleted at any time."""
    return (user_cache() or temporary_cache()) / "speeds.json"


def keys_of(plan: Plan) -> list[str]:
    """Return the key of each pool in the file of speeds."""
    return [_key(pool, plan.cluster) for pool in plan.pools]


def read_speeds(keys: Sequence[str], path: Path | None = None) -> list[Speed | None]:
    """Return the stored speed of each pool; None for a pool that has none."""
    known = _read(path or speeds_file())
    return [known.get(key) for key in keys]


def write_speeds(seen: Mapping[str, Speed], path: Path | None = None) -> None:
    """Store speeds, the latest last; above the maximum number the oldest are removed."""
    path = path or speeds_file()
    kept = {key: speed for key, speed in _read(path).items() if key not in seen} | dict(seen)
    latest = dict(list(kept.items())[-_MAX_STORED_POOLS:])
    try:
        with atomic_write(str(path), durable=False) as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(_File(_VERSION, latest)), indent=1))
    except OutputError as error:
        print(printable(f"Speeds of this run were not kept for the next one: {error}"), file=sys.stderr)


def _read(path: Path) -> dict[str, Speed]:
    try:
        data = path.read_bytes()
        if msgspec.json.decode(data, type=_Version).version != _VERSION:
            return {}
        return {key: _checked(speed) for key, speed in msgspec.json.decode(data, type=_File).pools.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        words = f"{path}: not readable, so this run begins without the speeds of earlier ones: {error}"
        print(printable(words), file=sys.stderr)
        return {}


def _checked(speed: Speed) -> Speed:
    numbers = (speed.seconds_per_item, speed.fan_out, speed.output_bytes, speed.start_up_s or 0.0)
    if not all(isfinite(number) and number >= 0 for number in numbers):
        raise ValueError(f"a speed has a negative or infinite value: {speed}")
    return speed


def _key(pool: Pool, cluster: Cluster) -> str:
    """Return a digest of everything that determines the speed of a pool; its output folder does not."""
    digest = hashlib.sha256()
    targets = {repr(target) for stage in pool.stages if (target := stage.writes_to()) is not None}
    for name, value in fingerprint(pool.stages).items():
        if value not in targets:
            digest.update(f"{name}={value}\n".encode())
    for stage in pool.stages:
        digest.update(_code(type(stage)))
    digest.update(repr((pool.resources, pool.batch_size)).encode())
    # The kind of machine only: the number of machines or GPUs changes the plan, not the speed of a worker.
    gpus = sorted({gpu for node in cluster.nodes for gpu in node.gpus})
    digest.update(repr((platform.machine(), os.cpu_count(), gpus)).encode())
    return digest.hexdigest()[:32]


def _code(stage: type[ProcessingStage[Any, Any]]) -> bytes:
    """Return the byte code of a stage class and of the classes it inherits from.

    Not the source code: finding 28 filters in their files takes two seconds.
    """
    classes = [cls for cls in stage.__mro__ if cls not in (object, ProcessingStage)]
    codes = [getattr(value, "__code__", None) for cls in classes for value in vars(cls).values()]
    return b"".join(_compiled(code) for code in codes if isinstance(code, CodeType))


def _compiled(code: CodeType) -> bytes:
    plain = [part for part in code.co_consts if isinstance(part, str | int | float | bytes | None)]
    inner = b"".join(_compiled(part) for part in code.co_consts if isinstance(part, CodeType))
    return code.co_code + repr((code.co_names, plain)).encode() + inner
