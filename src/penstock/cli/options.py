"""Options and arguments shared by several commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.core.executor import Executor, default_executor

F = TypeVar("F", bound=Callable[..., Any])

_DEBUG_VARIABLE = "PENSTOCK_DEBUG"


def debug_asked_for() -> bool:
    """Return whether tracebacks are printed, by ``--debug`` or PENSTOCK_DEBUG."""
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
    """Add the arguments RECIPE and KEY=VALUE."""
    recipe = click.argument("recipe", metavar="RECIPE")
    overrides = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
    return recipe(overrides(function))


def claim_options(function: F) -> F:
    """Add options that describe a machine other than this one."""
    cpus = click.option("--cpus", type=float, help="Plan for N CPUs.  [default: as on this machine]", metavar="N")
    gpus = click.option("--gpus", type=int, help="Plan for N GPUs.  [default: as on this machine]", metavar="N")
    memory = click.option(
        "--gpu-memory-gb", type=float, help="Memory of each of those GPUs.  [default: 80]", metavar="GB"
    )
    return cpus(gpus(memory(function)))


def ledger_option(function: F) -> F:
    """Add ``--no-ledger``."""
    option = click.option(
        "--no-ledger", is_flag=True, help="Store no receipts; `penstock why` and `whatif` cannot be used on this run."
    )
    return option(function)


def without_ledger(executor: Executor | None) -> Executor:
    """Return the executor, or the default one, with receipts switched off."""
    chosen = executor or default_executor()
    if hasattr(chosen, "ledger"):
        chosen.ledger = False
    return chosen


def checkpoint_option(function: F) -> F:
    """Add ``--checkpoint``."""
    option = click.option(
        "--checkpoint",
        metavar="DIR",
        help="Record progress in DIR. To resume an interrupted run, repeat the command.",
    )
    return option(function)


def expect_workers(*modules: str) -> None:
    """Start the local fork server early, so that it imports modules (by default all) while the recipe is read.

    Does nothing on a Ray cluster.
    """
    if "RAY_ADDRESS" not in os.environ:
        from penstock.backends.local.fork_server import fork_server

        fork_server(modules or None)
