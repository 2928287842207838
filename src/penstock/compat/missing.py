"""Error message for a ``nemo_curator`` name that Penstock does not have, with the nearest name."""

from __future__ import annotations

import penstock
from penstock.compat.names import NAMES, WANTED, modules_below
from penstock.errors import PenstockError, nearest

_MAX_NAMES_SHOWN = 8


class MissingNameError(PenstockError, ModuleNotFoundError):
    """A script imports a module or a name of ``nemo_curator`` that Penstock does not have."""


def explain(path: str) -> str:
    """Return the message for a dotted path that is not in the table.

    >>> print(explain("nemo_curator.tasks.DocumentBach"))
    nemo_curator.tasks.DocumentBach: Penstock has no such name. Nearest: DocumentBatch (penstock).
    >>> print(explain("nemo_curator.pipelines"))
    nemo_curator.pipelines: Penstock has no such module. Nearest: nemo_curator.pipeline, which has Pipeline, workflow.
    """
    module, _, name = path.rpartition(".")
    # The import statement does not say whether it wants a module or a name. Module names have no capitals.
    noun = "module" if name == name.lower() and modules_below(module) else "name"
    return f"{path}: Penstock has no such {noun}. Nearest: {_nearest_thing(module, name)}."


def _nearest_thing(module: str, name: str) -> str:
    meanwhile = {known: advice for names in WANTED.values() for known, advice in names.items()}
    if name in meanwhile:
        return meanwhile[name]
    if similar := nearest(name, NAMES.get(module, ())):
        return _said(module, similar, where_asked=True)
    if similar := nearest(name, modules_below(module)):
        return _contents(f"{module}.{similar}")
    homes = {known: home for home, names in NAMES.items() for known in names}
    if similar := nearest(name, homes):
        return _said(homes[similar], similar, where_asked=False)
    while not NAMES.get(module) and not modules_below(module):
        module = module.rpartition(".")[0]
    return _contents(module)


def _said(module: str, name: str, *, where_asked: bool) -> str:
    """Return a name of Penstock and the module to import it from."""
    ours = "penstock" if name in penstock.__all__ else NAMES[module][name].partition(":")[0]
    return f"{name} ({ours})" if where_asked else f"{module}.{name} ({ours})"


def _contents(module: str) -> str:
    names = sorted(NAMES.get(module, ()))
    modules = [below for below in modules_below(module) if below not in {name.lower() for name in names}]
    shown = [*names, *modules]
    more = f" and {len(shown) - _MAX_NAMES_SHOWN} more" if len(shown) > _MAX_NAMES_SHOWN else ""
    return f"{module}, which has {', '.join(shown[:_MAX_NAMES_SHOWN])}{more}"
