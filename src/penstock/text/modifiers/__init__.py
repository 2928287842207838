"""Modifiers: what to change in documents."""
