"""Preload pandas, if it is installed: a stage of a user most likely needs it, and the import takes 0.2 seconds."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from penstock.preload import preloading

with preloading(), suppress(ImportError):
    import_module("pandas")
