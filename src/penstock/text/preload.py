"""Preload all of text curation in the process that workers are forked from."""

from __future__ import annotations

from penstock.preload import import_public_names, preloading

with preloading():
    import_public_names("penstock.text")
