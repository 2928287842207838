"""Import hook that maps ``nemo_curator`` modules to Penstock while it is on ``sys.meta_path``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from penstock.compat.missing import MissingNameError, explain
from penstock.compat.names import MODULES, NAMES, ROOT, modules_below
from penstock.compat.stage_specs import STAGE_SPECS
from penstock.core.stage import FOREIGN_SETTINGS


class RealPackageHidden(UserWarning):
    """Warn that the installed ``nemo_curator`` is hidden, because the script imports Penstock under that name."""


class CompatFinder(MetaPathFinder, Loader):
    """Find and load the modules listed in ``compat.names``; each name is resolved when it is first used."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of a listed module; raise MissingNameError for any other ``nemo_curator`` path.

        ``from nemo_curator.tasks import Missing`` is handled here too: every listed module is a package, and Python
        tries to import a missing attribute of a package as a submodule. The module itself cannot raise this message:
        it would have to be an AttributeError, whose text Python replaces. For the same reason the error has no
        ``name``: Python ignores a ModuleNotFoundError that names the requested module.
        """
        if fullname.partition(".")[0] != ROOT:
            return None
        if fullname not in MODULES:
            raise MissingNameError(explain(fullname))
        return ModuleSpec(fullname, self, origin="penstock.compat", is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Set the attributes with which the module resolves its names."""
        vars(module).update(
            __doc__=f"Penstock under the name {module.__name__}; see penstock.compat.names.",
            __all__=sorted(NAMES.get(module.__name__, ())),
            __getattr__=partial(_resolve, module),
            __dir__=partial(_list_names, module.__name__),
        )


def install() -> None:
    """Make ``import nemo_curator`` import Penstock. A second call has no effect."""
    if _FINDER in sys.meta_path:
        return
    if ROOT in sys.modules:
        origin = getattr(sys.modules[ROOT], "__file__", None) or "unknown place"
        raise ImportError(
            f"the real nemo_curator is already imported (from {origin}), and one process cannot use both. Put "
            "'import penstock.compat.nemo_curator' on the first line of the script, or drop it to use the real one."
        )
    real = find_spec(ROOT)
    if real is not None and real.origin is not None:  # a plain folder of that name has no origin
        warnings.warn(
            f"nemo_curator is installed ({real.origin}), but this script runs on Penstock, as it requested. "
            "To get the real one back, drop 'import penstock.compat.nemo_curator' or run the file with python.",
            RealPackageHidden,
            stacklevel=3,  # the line of the script with the import
        )
    sys.meta_path.insert(0, _FINDER)
    FOREIGN_SETTINGS.update(STAGE_SPECS)


def uninstall() -> None:
    """Remove the import hook and its modules, so that ``install`` can be called again."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
        for name in STAGE_SPECS:
            FOREIGN_SETTINGS.pop(name, None)
    for name in [name for name, module in sys.modules.items() if _is_ours(module)]:
        del sys.modules[name]
    sys.modules.pop("penstock.compat.nemo_curator", None)


def _is_ours(module: ModuleType) -> bool:
    return getattr(getattr(module, "__spec__", None), "loader", None) is _FINDER


def _resolve(module: ModuleType, name: str) -> Any:  # noqa: ANN401 - any public name
    target = NAMES.get(module.__name__, {}).get(name)
    if target is None:
        raise AttributeError(
            f"module {module.__name__!r} has no attribute {name!r}"
            if name.startswith("_")
            else explain(f"{module.__name__}.{name}")
        )
    home, _, attribute = target.partition(":")
    value = getattr(import_module(home), attribute)
    setattr(module, name, value)
    return value


def _list_names(module: str) -> list[str]:
    return sorted([*NAMES.get(module, ()), *modules_below(module)])


_FINDER = CompatFinder()
