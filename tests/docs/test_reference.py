"""Every public name has an entry in the reference that says what it does."""

from __future__ import annotations

import importlib

import pytest

from penstock.reference.catalogue import CATEGORIES, LISTED, PUBLIC_MODULES, entries, in_category, see_also
from penstock.reference.docstrings import parse
from penstock.reference.facts import facts
from penstock.reference.recipes import recipe_entries

# Names whose docstring has no example yet. A name may only be removed from this list.
WITHOUT_EXAMPLE: frozenset[str] = frozenset([])


def public_names() -> set[str]:
    return {name for module in PUBLIC_MODULES for name in importlib.import_module(module).__all__}


def test_every_public_name_has_an_entry() -> None:
    assert public_names() <= set(entries())
    assert {entry.category for entry in entries().values()} <= set(CATEGORIES)


@pytest.mark.parametrize("name", sorted(entries()))
def test_an_entry_says_in_its_first_line_what_the_name_does(name: str) -> None:
    assert entries()[name].summary.endswith((".", "?")), f"{name}: its docstring needs a first sentence"


def test_names_without_an_example_become_fewer() -> None:
    lacking = {name for name in public_names() if not entries()[name].example}
    assert lacking - WITHOUT_EXAMPLE == set(), "write an example into the docstring (>>> …)"
    assert WITHOUT_EXAMPLE - lacking == set(), "these have an example now: remove them from WITHOUT_EXAMPLE"


def test_the_score_of_an_empty_document_is_computed() -> None:
    scores = {name: dict(facts(entries()[name]))["Empty document"] for name in ("WordCountFilter", "UrlsFilter")}
    assert scores == {
        "WordCountFilter": "scores 0 and is dropped with the default parameters",
        "UrlsFilter": "scores 1 and is dropped with the default parameters",
    }
    known = [entry.empty_score is not None for entry in in_category("filters") if entry.is_filter]
    assert sum(known) > 30


def test_a_stage_says_which_columns_it_reads_and_writes() -> None:
    splitter = dict(facts(entries()["DocumentSplitter"]))
    assert splitter["Reads"] == "column text"
    assert splitter["Writes"] == "columns text, segment_id"


def test_parameters_have_types_and_defaults() -> None:
    shown = {one.name: (one.annotation, one.default) for one in entries()["JsonlReader"].parameters}
    assert shown["file_paths"] == ("str | Path | Sequence[str | Path]", None)
    assert shown["on_bad_line"] == ("str", "'skip'")


def test_errors_are_read_from_the_code() -> None:
    assert ("ValueError", "Modify: the list of modifiers is empty.") in entries()["Modify"].errors


def test_see_also_names_relatives() -> None:
    assert {"MeanWordLengthFilter", "DocumentFilter"} <= {
        other.name for other in see_also(entries()["WordCountFilter"])
    }


def test_every_recipe_is_described() -> None:
    for entry in recipe_entries().values():
        assert entry.summary
        assert entry.stages
        assert {"input_path", "output_path"} <= {one.name for one in entry.variables if one.default is None}


def test_categories_of_the_command_are_those_of_the_reference() -> None:
    from penstock.cli.list import CATEGORIES as OFFERED

    assert set(OFFERED) == {*LISTED, "recipes"}


def test_sections_of_a_docstring_are_told_apart() -> None:
    parsed = parse("Do it.\n\nAt once.\n\nArgs:\n    n: how often\n\nSee also:\n    Other, Another.\n")
    assert parsed.description == "At once."
    assert parsed.sections == {"Args": ["n: how often"], "See also": ["Other, Another."]}
