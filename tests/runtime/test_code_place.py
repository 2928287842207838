"""An error names the line of the user's own code, even if a library raised the exception."""

from __future__ import annotations

import json

import pyarrow as pa

from penstock.runtime.code_place import cause_of, code_place


def caught(function: object, *arguments: object) -> Exception:
    try:
        function(*arguments)  # type: ignore[operator]
    except Exception as error:
        return error
    raise AssertionError("it should have failed")


def parse(text: str) -> object:
    return json.loads(text)


def column(name: str) -> object:
    return pa.table({"text": ["a"]})[name]


def test_the_standard_library_is_not_the_users_code() -> None:
    place = code_place(caught(parse, "{"))
    assert place is not None
    assert (place.file, place.function, place.source) == (__file__, "parse", "return json.loads(text)")


def test_compiled_code_is_not_the_users_code() -> None:
    place = code_place(caught(column, "txet"))
    assert place is not None
    assert (place.file, place.function) == (__file__, "column")


def test_failures_at_the_same_line_have_the_same_cause() -> None:
    one, other = caught(column, "txet"), caught(column, "tetx")
    assert cause_of(one) == cause_of(other)
    assert cause_of(one).startswith(f"KeyError at {__file__}:")
    assert cause_of(one) != cause_of(caught(parse, "{"))
