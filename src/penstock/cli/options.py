"""Options and arguments that several commands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.core.executor import Executor, default_executor

F = TypeVar("F", bound=Callable[..., Any])

_DEBUG_VARIABLE = "PENSTOCK_DEBUG"


def debug_asked_for() -> bool:
    """Tell whether tracebacks are wanted."""
    return os.environ.get(_DEBUG_VARIABLE, "") not in ("", "0")


def _remember_debug(_context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        os.environ[_DEBUG_VARIABLE] = "1"


def debug_option(function: F) -> F:
    """Add ``--debug``."""
    option = click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_remember_debug,
        help=f"Show the traceback of an error (or set {_DEBUG_VARIABLE}=1).",
    )
    return option(function)


def recipe_arguments(function: F) -> F:
    """Add a recipe and overrides to it."""
    recipe = click.argument("recipe", metavar="RECIPE")
    overrides = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
    return recipe(overrides(function))


def claim_options(function: F) -> F:
    """Add options that claim a machine other than this one."""
    cpus = click.option("--cpus", type=float, help="Plan for this many CPUs instead of this machine's.")
    gpus = click.option("--gpus", type=int, help="Plan for this many GPUs instead of this machine's.")
    memory = click.option("--gpu-memory-gb", type=float, help="Memory of each claimed GPU (default 80).")
    return cpus(gpus(memory(function)))


def ledger_option(function: F) -> F:
    """Add ``--no-ledger``."""
    option = click.option(
        "--no-ledger", is_flag=True, help="Keep no receipts: `penstock why` and `whatif` will know nothing of this run."
    )
    return option(function)


def without_ledger(executor: Executor | None) -> Executor:
    """Return an executor, or the one that runs by default, told to keep no receipts."""
    chosen = executor or default_executor()
    if hasattr(chosen, "ledger"):
        chosen.ledger = False
    return chosen


def checkpoint_option(function: F) -> F:
    """Add ``--checkpoint``."""
    option = click.option(
        "--checkpoint",
        metavar="DIR",
        help="Remember there what is complete; the same command goes on where it stopped.",
    )
    return option(function)


def expect_workers(*modules: str) -> None:
    """Preload modules for workers while the command reads its recipe, by default all; do nothing on a cluster."""
    if "RAY_ADDRESS" not in os.environ:
        from penstock.backends.local.fork_server import fork_server

        fork_server(modules or None)
