"""Find a folder for compiled kernels, so that they are compiled once: the first that no other user can write to.

Numba unpickles the files in it, so a folder that another user can change would let that user run code as this one.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numba

from penstock.storage.user_cache import temporary_cache, user_cache, why_not_private

# Its attributes are set from the environment, so the type checker does not know them.
_config: Any = numba.config
_VARIABLE = "NUMBA_CACHE_DIR"


@cache
def code_cache() -> Path | None:
    """Return the folder for compiled kernels, created if missing; None if no folder can be used.

    It is named after the source of all kernels. Numba looks only at the file of a function to tell whether its code on
    disk is stale, and not at the files of the functions that were compiled into it.
    """
    here = Path(__file__).parent
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(here.glob("*.py")))).hexdigest()[:16]
    chosen: str = _config.CACHE_DIR
    if chosen:
        in_chosen = Path(chosen).absolute() / digest
        if (trouble := _why_unusable(in_chosen)) is None:
            return in_chosen
        _print_once(f"Compiled code is not kept in {_VARIABLE}={chosen}: {trouble}.")
    in_package = here / "__pycache__" / digest
    if os.access(here, os.W_OK) and _why_unusable(in_package) is None:
        return in_package
    is_new = not temporary_cache().exists()
    found = user_cache()
    folder = found / "kernels" / digest if found is not None else None
    if folder is None or _why_unusable(folder) is not None:
        _print_once(
            f"Compiled code cannot be kept, so every process compiles it again, which takes a minute: neither {here}, "
            f"nor the home folder, nor {temporary_cache().parent} can be written to. Set {_VARIABLE} to a folder of "
            "your own."
        )
        return None
    if found == temporary_cache() and is_new:
        _print_once(
            f"Compiled code is kept in {found}, because neither {here} nor the home folder can be written to. "
            f"Set {_VARIABLE} to keep it in a folder of your own."
        )
    return folder


def _why_unusable(folder: Path) -> str | None:
    """Create a folder, and return why compiled code cannot be kept there; None if it can."""
    try:
        for missing in reversed([place for place in (folder, *folder.parents) if not place.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)  # another process may create it at the same time
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return f"it cannot be written to ({error.strerror})"
    return why_not_private(folder)


def _print_once(text: str) -> None:
    """Print a message once; processes started from this one do not repeat it."""
    if os.environ.get("PENSTOCK_CODE_CACHE") != text:
        os.environ["PENSTOCK_CODE_CACHE"] = text
        print(text, file=sys.stderr)
