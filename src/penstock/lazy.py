"""Load the public names of a package on first use, so that importing the package is cheap.

The names and their modules are listed once, in the ``__init__.pyi`` of the package, which type checkers read too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def offered(package: str, init_file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    >>> look_up, names, _ = offered("penstock.dedup", import_module("penstock.dedup").__file__)
    >>> "ExactDeduplicationWorkflow" in names(), look_up("ExactDeduplicationWorkflow").__module__
    (True, 'penstock.dedup.exact_workflow')
    """
    tree = ast.parse(Path(init_file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}

    def look_up(name: str) -> Any:  # noqa: ANN401 - any public name
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return look_up, lambda: sorted(homes), sorted(homes)
