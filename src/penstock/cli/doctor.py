"""``penstock doctor``: what this machine offers."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from penstock.cli.options import debug_option
from penstock.cli.shown import echo

_CORE = ("pyarrow", "numpy", "numba", "fsspec", "msgspec", "cloudpickle")
_RAY_CLUSTER_FILE = Path(os.environ.get("TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"


@click.command("doctor")
@debug_option
def command() -> None:
    """Show what this machine offers: cores, memory, GPUs, shared memory, installed extras, Ray.

    \b
    Example:
      penstock doctor
    """
    for label, finding in findings():
        echo(f"{label:<15} {finding}")


def findings() -> Iterator[tuple[str, str]]:
    """Yield what was found, a label and a sentence each."""
    import psutil

    import penstock
    from penstock.core.sizes import human_bytes
    from penstock.extras import PROBES, is_installed
    from penstock.runtime.machine import find_gpus, usable_cpus, usable_memory

    yield "penstock", f"{penstock.__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield "cores", f"{usable_cpus()} usable of {os.cpu_count()}"
    free = min(int(psutil.virtual_memory().available), usable_memory())
    yield "memory", f"{human_bytes(usable_memory())} usable, {human_bytes(free)} free now"
    yield "shared memory", _shared_memory()
    gpus = find_gpus()
    yield "GPUs", "; ".join(f"{gpu.name}, {gpu.memory_gb:.0f} GB" for gpu in gpus) or _why_no_gpus()
    yield "libraries", ", ".join(f"{name} {_version(name)}" for name in _CORE)
    for extra in PROBES:
        yield f"  [{extra}]", "installed" if is_installed(extra) else f"not installed: pip install 'penstock[{extra}]'"
    yield "Ray", _ray()


def _shared_memory() -> str:
    from penstock.core.sizes import human_bytes

    folder = Path("/dev/shm")
    if not folder.is_dir():
        return "no /dev/shm on this system"
    usage = shutil.disk_usage(folder)
    return f"{human_bytes(usage.total)} in {folder}, {human_bytes(usage.free)} free"


def _why_no_gpus() -> str:
    from penstock.extras import is_installed

    if shutil.which("nvidia-smi") and not is_installed("gpu"):
        return "an NVIDIA driver is here, but not what Penstock asks it with: pip install 'penstock[gpu]'"
    return "none found"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _ray() -> str:
    """Tell whether a Ray cluster answers, without starting or joining one."""
    from penstock.extras import is_installed

    address = os.environ.get("RAY_ADDRESS", "")
    if not address and _RAY_CLUSTER_FILE.is_file():
        address = _RAY_CLUSTER_FILE.read_text(encoding="utf-8").strip()
    if not address:
        return "no cluster: RAY_ADDRESS is not set and none runs on this machine"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except (OSError, ValueError) as error:
        return f"cluster at {address} is not reachable: {error}"
    note = "" if is_installed("ray") else ", but Ray is not installed here: pip install 'penstock[ray]'"
    return f"cluster at {address} answers{note}"
