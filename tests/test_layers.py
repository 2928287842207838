"""The layers: a module imports only earlier layers, so that a newcomer can read one layer at a time."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

ROOT = Path(penstock.__file__).parent

# A layer imports itself and earlier layers. So there are no import cycles, and the layers can be read in order.
LAYERS = (
    "errors", "extras", "lazy", "core", "plan", "schedule", "storage", "kernels", "ledger", "monitor", "runtime", "backends",
    "executors", "text", "dedup", "models", "image", "video", "testing", "compat", "recipe", "reference", "cli", "__main__",
)  # fmt: skip

# Stages use only what every user has: they must not depend on the executor.
STAGES = {"text", "dedup", "models", "image", "video"}
STAGES_MAY_USE = {"errors", "extras", "lazy", "core", "kernels", "storage"}
# A dedup workflow contains readers and writers.
MAY_ALSO_USE = {"dedup": {"text"}}

# Decisions are pure: equal arguments lead to equal decisions, so that a run can be replayed and a cluster simulated.
PURE = {"core", "plan", "schedule"}
IMPURE_MODULES = {
    "asyncio", "multiprocessing", "os", "random", "secrets", "socket", "subprocess", "threading", "time", "uuid",
}  # fmt: skip

# Names that say nothing about the content of a module.
EMPTY_NAMES = {"utils", "helpers", "common", "base", "misc", "internal"}

# `penstock/__init__.py` names objects of every layer.
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of every module a file imports, also inside functions and for the type checker only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write imports in full"
            assert node.module is not None
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def layers_used(path: Path) -> Iterator[tuple[int, str]]:
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] == "penstock" and len(parts) > 1:
            yield line, parts[1]


def violations(path: Path) -> Iterator[str]:
    own = layer_of(path)
    where = path.relative_to(ROOT)
    for line, used in layers_used(path):
        if used not in LAYERS:
            # A name of the top package: allowed only in layers after all that it may come from.
            if LAYERS.index(own) < LAYERS.index("testing"):
                yield f"{where}:{line} imports penstock.{used}; import from the module where it lives"
        elif LAYERS.index(used) > LAYERS.index(own):
            yield f"{where}:{line} is in layer '{own}' and imports the later layer '{used}'"
        elif own in STAGES and used not in (allowed := STAGES_MAY_USE | {own} | MAY_ALSO_USE.get(own, set())):
            yield f"{where}:{line} holds stages and imports '{used}'; stages use {', '.join(sorted(allowed))}"


def impurities(path: Path) -> Iterator[str]:
    where = path.relative_to(ROOT)
    for line, name in imports(path):
        if name.split(".")[0] in IMPURE_MODULES:
            yield f"{where}:{line} imports {name}; '{layer_of(path)}' looks at nothing but its arguments"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("date.today", "datetime.now", "datetime.utcnow")
        ):
            yield f"{where}:{node.lineno} asks for the time; '{layer_of(path)}' looks at nothing but its arguments"


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_a_module_belongs_to_a_layer_and_imports_only_earlier_ones(path: Path) -> None:
    assert layer_of(path) in LAYERS, "add a new layer to the list above, and to the docs"
    assert list(violations(path)) == []


@pytest.mark.parametrize("path", [path for path in MODULES if layer_of(path) in PURE], ids=named)
def test_core_plan_and_schedule_are_pure(path: Path) -> None:
    assert list(impurities(path)) == []


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_no_module_has_a_meaningless_name(path: Path) -> None:
    assert not EMPTY_NAMES & {part.removesuffix(".py").strip("_") for part in path.relative_to(ROOT).parts}


@pytest.mark.parametrize(
    ("place", "source", "caught"),
    [
        ("core/x.py", "import os.path", 1),
        ("core/x.py", "def f():\n    from time import monotonic", 1),
        ("plan/x.py", "import datetime\ndatetime.datetime.now()", 1),
        ("core/x.py", "from penstock.plan.check import check", 1),
        ("plan/x.py", "from penstock import Pipeline", 1),
        ("text/x.py", "def f():\n    import penstock.runtime.worker", 1),
        ("text/x.py", "from penstock.core.task import Task\nimport os", 0),
        ("dedup/x.py", "from penstock.text import JsonlReader", 0),
        ("models/x.py", "from penstock.text import JsonlReader", 1),
        ("runtime/x.py", "import time, penstock.plan.plan", 0),
    ],
)
def test_the_layer_rules_detect_violations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, source: str, caught: int
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / place
    path.parent.mkdir()
    path.write_text(source)
    found = [*violations(path), *(impurities(path) if layer_of(path) in PURE else ())]
    assert len(found) == caught, found
