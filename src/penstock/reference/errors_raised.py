"""Find the errors a class or function raises on purpose, by reading its source."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from penstock import errors
from penstock.reference.docstrings import parse

# What a caller may see. Others are caught inside Penstock, or stand for a method that a subclass has to write.
_BUILT_IN = {"AttributeError", "ImportError", "KeyError", "RuntimeError", "TypeError", "ValueError"}
# A message shorter than this without what is inserted into it says less than the description of the error.
_SHORTEST = 25
# Their own methods concern every stage; they are described with the class itself.
_SHARED = {"ProcessingStage", "CompositeStage", "Reporting", "object"}


def errors_raised(target: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - a class or a function
    """Return ``(error, message)`` pairs; what is inserted into a message is shown as an ellipsis.

    >>> from penstock.text import TokenCountFilter
    >>> errors_raised(TokenCountFilter)[0]
    ('ValueError', 'TokenCountFilter: give either a tokenizer or an hf_model_name.')
    """
    found: dict[tuple[str, str], None] = {}
    for source in _sources(target):
        for node in ast.walk(source):
            for error in _error(node, target.__name__):
                found.setdefault(error)
    return list(found)


def _sources(target: Any) -> Iterator[ast.AST]:  # noqa: ANN401
    classes = [target] if not inspect.isclass(target) else [
        cls for cls in target.__mro__
        if cls.__module__.startswith("penstock.") and (cls is target or cls.__name__ not in _SHARED)
    ]  # fmt: skip
    for one in classes:
        try:
            yield ast.parse(textwrap.dedent(inspect.getsource(one)))
        except (OSError, TypeError, SyntaxError):  # no source: nothing to read
            continue


def _error(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
        error = node.exc.func.id
        ours = getattr(errors, error, None)
        if error in _BUILT_IN or ours is not None:
            message = _message(node.exc.args[0], name) if node.exc.args else ""
            says_nothing = len(message.replace("…", "")) < _SHORTEST
            yield error, parse(ours.__doc__).summary if ours and says_nothing else message
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
        extra = node.args[1] if len(node.args) > 1 else None
        if isinstance(extra, ast.Constant) and isinstance(extra.value, str):
            yield "MissingExtraError", f"penstock[{extra.value}] is not installed."


def _message(node: ast.expr, name: str) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [str(part.value) if isinstance(part, ast.Constant) else _inserted(part, name) for part in node.values]
        return re.sub("…[….]*…", "…", "".join(parts))
    return ""


def _inserted(part: ast.expr, name: str) -> str:
    return name if "type(self).__name__" in ast.unparse(part) else "…"
