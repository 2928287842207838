"""The table of names is correct: every entry resolves, and no name is both available and missing."""

from __future__ import annotations

from importlib import import_module

import pytest

import penstock
from penstock.compat.names import NAMES, WANTED

ENTRIES = [(module, name, target) for module, names in NAMES.items() for name, target in names.items()]


@pytest.mark.parametrize(("module", "name", "target"), ENTRIES, ids=[f"{m}.{n}" for m, n, _ in ENTRIES])
@pytest.mark.usefixtures("compat")
def test_every_entry_resolves_to_a_penstock_object(module: str, name: str, target: str) -> None:
    home, _, attribute = target.partition(":")
    assert getattr(import_module(module), name) is getattr(import_module(home), attribute)
    assert name in dir(import_module(module))


def test_no_name_is_both_available_and_listed_as_missing() -> None:
    served = {name for names in NAMES.values() for name in names}
    wanted = {name for names in WANTED.values() for name in names}
    assert not served & wanted


def test_the_main_public_names_are_in_the_table() -> None:
    served = {name for names in NAMES.values() for name in names}
    # The peer has no executor that runs in the calling process, and no receipts, so there is no name to map.
    assert set(penstock.__all__) - served == {"InlineExecutor", "StreamingExecutor", "Verdicts"}
