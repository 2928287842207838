"""``penstock doctor``: report what Penstock can use on this machine, and remove leftovers of killed runs."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.options import debug_option
from penstock.cli.shown import echo
from penstock.errors import OutputError

if TYPE_CHECKING:
    from penstock.storage.owned_folders import Leftover

_CORE = ("pyarrow", "numpy", "numba", "fsspec", "msgspec", "cloudpickle")
# A few tasks between stages fill less than this.
_SMALL_SHARED_MEMORY_BYTES = 2**30
_RAY_CLUSTER_FILE = Path(os.environ.get("TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"


@click.command("doctor")
@click.option("--clean", is_flag=True, help="Remove the leftovers of runs that were killed.")
@click.option(
    "--spill-dir",
    "spill_dirs",
    multiple=True,
    metavar="DIR",
    help="Also look for leftovers in this folder; may be repeated.",
)
@debug_option
def command(clean: bool, spill_dirs: tuple[str, ...]) -> None:
    """Check this machine: cores, memory, GPUs, installed extras, Ray and leftovers of killed runs.

    Leftovers are folders in shared memory and on disk that remain when a run is killed together with its cleanup
    process. Only leftovers of your own runs that have ended on this machine are listed, and removed by --clean.

    \b
    Examples:
      penstock doctor
      penstock doctor --clean
    """
    if clean:
        _clean(spill_dirs)
        return
    for label, finding in findings(spill_dirs):
        echo(f"{label:<15} {finding}")


def findings(spill_dirs: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield a label and a finding for each property of the machine."""
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
    yield "temporary files", _temporary_files()
    yield "compiled code", _compiled_code()
    gpus = find_gpus()
    yield "GPUs", "; ".join(f"{gpu.name}, {gpu.memory_gb:.0f} GB" for gpu in gpus) or _why_no_gpus()
    yield "libraries", ", ".join(f"{name} {_version(name)}" for name in _CORE)
    for extra in PROBES:
        yield f"  [{extra}]", "installed" if is_installed(extra) else f"not installed: pip install 'penstock[{extra}]'"
    yield "Ray", _ray()
    yield "leftovers", _leftovers(spill_dirs)


def _shared_memory() -> str:
    from penstock.backends.local.folders import SHARED_MEMORY
    from penstock.core.sizes import human_bytes
    from penstock.storage.filesystem import is_writable

    if not SHARED_MEMORY.is_dir():
        return f"no {SHARED_MEMORY} on this system: tasks between stages are stored in the folder for temporary files"
    if not is_writable(SHARED_MEMORY):
        return f"{SHARED_MEMORY} is not writable: tasks between stages are stored in the folder for temporary files"
    usage = shutil.disk_usage(SHARED_MEMORY)
    found = f"{human_bytes(usage.total)} in {SHARED_MEMORY}, {human_bytes(usage.free)} free"
    if usage.free >= _SMALL_SHARED_MEMORY_BYTES:
        return found
    return (
        f"{found}: too small. Tasks between stages that do not fit are stored on disk, which is slower. A "
        "container gets more with --shm-size (Docker) or an emptyDir with medium: Memory (Kubernetes)"
    )


def _temporary_files() -> str:
    from penstock.backends.local.folders import spill_folder
    from penstock.core.sizes import human_bytes

    try:
        folder = spill_folder(None)
    except OutputError as error:
        return str(error)
    return f"{folder}, {human_bytes(shutil.disk_usage(folder).free)} free"


def _compiled_code() -> str:
    from penstock.kernels.code_cache import code_cache
    from penstock.storage.user_cache import temporary_cache

    folder = code_cache()
    if folder is None:
        return "not cached: no folder is writable by this user alone. Every process compiles it again"
    if temporary_cache() in folder.parents:
        return f"cached in {folder}, because the home folder is not writable. Set NUMBA_CACHE_DIR to keep it for longer"
    return f"cached in {folder}"


def _leftovers(spill_dirs: Sequence[str]) -> str:
    from penstock.core.sizes import human_bytes, plural

    found = _find_leftovers(spill_dirs)
    if not found:
        return "none"
    runs = len({leftover.owner for leftover in found})
    size = human_bytes(sum(leftover.size for leftover in found))
    places = "".join(f"\n{'':<16}{leftover.path}" for leftover in found)
    return f"{plural(runs, 'run')}, {size}; remove with penstock doctor --clean{places}"


def _clean(spill_dirs: Sequence[str]) -> None:
    """Remove leftovers and print each removed folder; raise OutputError if one cannot be removed."""
    from penstock.core.sizes import human_bytes

    removed = 0
    for leftover in _find_leftovers(spill_dirs):
        shutil.rmtree(leftover.path, ignore_errors=True)
        if leftover.path.exists():
            raise OutputError(f"{leftover.path}: cannot be removed completely. Remove it by hand.")
        echo(f"removed {leftover.path} ({human_bytes(leftover.size)})")
        removed += leftover.size
    echo(f"{human_bytes(removed)} freed." if removed else "Nothing to remove.")


def _find_leftovers(spill_dirs: Sequence[str]) -> list[Leftover]:
    from penstock.backends.local.folders import SHARED_MEMORY
    from penstock.storage.owned_folders import find_leftovers

    temporary = Path(tempfile.gettempdir())
    of_ray = {
        folder.resolve() for folder in temporary.glob("ray/session_*/penstock")
    }  # session_latest is a link to one of them
    return find_leftovers([SHARED_MEMORY, temporary, *of_ray, *map(Path, spill_dirs)])


def _why_no_gpus() -> str:
    from penstock.extras import is_installed

    if shutil.which("nvidia-smi") and not is_installed("gpu"):
        return "an NVIDIA driver is installed, but not the library that queries it: pip install 'penstock[gpu]'"
    return "none found"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _ray() -> str:
    """Report whether a Ray cluster answers, without starting or joining one."""
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
