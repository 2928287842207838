"""Find the innermost line of the user's own code in a traceback."""

from __future__ import annotations

import linecache
import sysconfig
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import penstock

_PENSTOCK = str(Path(penstock.__file__).parent)
_INSTALLED = ("site-packages", "dist-packages")


class CodePlace(NamedTuple):
    """A line of code."""

    file: str
    line: int
    function: str
    # The source line; empty if the file cannot be read.
    source: str = ""

    def __str__(self) -> str:
        """Return file, line, function and source on one line."""
        said = f": {self.source}" if self.source else ""
        return f"{self.file}, line {self.line}, in {self.function}{said}"


def code_place(error: BaseException) -> CodePlace | None:
    """Return the innermost line that is neither in Penstock nor in a library; else the innermost line of all.

    >>> try:
    ...     int("x")
    ... except ValueError as error:
    ...     code_place(error).function
    '<module>'
    """
    frames = list(_frames(error.__traceback__))
    if not frames:
        return None
    file, line, function = next((frame for frame in reversed(frames) if _is_users(frame[0])), frames[-1])
    return CodePlace(file, line, function, linecache.getline(file, line).strip())


def cause_of(error: BaseException) -> str:
    """Return the cause of a failure, equal for all rows that fail in the same way: exception type and line.

    >>> cause_of(KeyError("text"))
    'KeyError'
    """
    original = error.__cause__ or error
    frames = list(_frames(original.__traceback__))
    if not frames:
        return type(original).__name__
    file, line, _ = next((frame for frame in reversed(frames) if _is_users(frame[0])), frames[-1])
    return f"{type(original).__name__} at {file}:{line}"


def _frames(traceback: TracebackType | None) -> list[tuple[str, int, str]]:
    frames = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append((code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    return frames


@cache
def _is_users(file: str) -> bool:
    if file.startswith("<"):  # typed into a notebook or an interpreter
        return not file.startswith("<frozen ")
    if not Path(file).is_absolute():  # compiled: pyarrow/table.pxi
        return False
    paths = sysconfig.get_paths()
    libraries = [_PENSTOCK, paths["stdlib"], paths["platstdlib"]]
    # A virtual environment may be located inside a folder of the user; its packages are not user code.
    parts = Path(file).parts
    return not any(name in parts for name in _INSTALLED) and not any(
        file.startswith(f"{folder}/") for folder in libraries
    )
