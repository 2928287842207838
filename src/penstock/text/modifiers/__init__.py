"""Modifiers: change documents."""
