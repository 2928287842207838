"""Making ``nemo_curator`` importable from the table, for as long as the finder is on ``sys.meta_path``."""

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
    """The real ``nemo_curator`` is installed, and scripts get Penstock under its name because they asked for it."""


class CompatFinder(MetaPathFinder, Loader):
    """Finds and loads the modules of the table; each is empty until a name in it is asked for."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of a module of the table; raise what is missing for any other ``nemo_curator`` path.

        ``from nemo_curator.tasks import Missing`` comes here too: every module of ours is a package, and of a package
        Python tries a name that is no attribute as a module. The message could not come from the module itself: there
        it would have to be an AttributeError, which Python replaces by its own words. For the same reason the error
        has no ``name``: one that names what was asked for is swallowed as "then it is no module".
        """
        if fullname.partition(".")[0] != ROOT:
            return None
        if fullname not in MODULES:
            raise MissingNameError(explain(fullname))
        return ModuleSpec(fullname, self, origin="penstock.compat", is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Fill in how the module looks its names up."""
        vars(module).update(
            __doc__=f"Penstock under the name {module.__name__}; see penstock.compat.names.",
            __all__=sorted(NAMES.get(module.__name__, ())),
            __getattr__=partial(_resolve, module),
            __dir__=partial(_list_names, module.__name__),
        )


def install() -> None:
    """Make ``import nemo_curator`` give Penstock. A second call changes nothing."""
    if _FINDER in sys.meta_path:
        return
    if ROOT in sys.modules:
        origin = getattr(sys.modules[ROOT], "__file__", None) or "unknown place"
        raise ImportError(
            f"the real nemo_curator is already imported (from {origin}), and one process cannot use both. Put "
            "'import penstock.compat.nemo_curator' on the first line of the script, or drop it to use the real one."
        )
    real = find_spec(ROOT)
    if real is not None and real.origin is not None:  # a folder that only has the name has no origin
        warnings.warn(
            f"nemo_curator is installed ({real.origin}), but this script runs on Penstock, as it asked to. "
            "To get the real one back, drop 'import penstock.compat.nemo_curator' or run the file with python.",
            RealPackageHidden,
            stacklevel=3,  # the line that asked for it
        )
    sys.meta_path.insert(0, _FINDER)
    FOREIGN_SETTINGS.update(STAGE_SPECS)


def uninstall() -> None:
    """Take the name ``nemo_curator`` away again, so that the next ``install`` or import line starts afresh."""
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
