"""A YAML file as plain data that remembers on which line each entry stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from penstock.errors import InputError, RecipeError
from penstock.storage.filesystem import open_input

Path = tuple[str | int, ...]


@dataclass
class Document:
    """The data of a recipe, and where it comes from."""

    source: str
    data: dict[str, Any]
    lines: dict[Path, int]

    def where(self, path: Path) -> str:
        """Say where an entry stands: file, line if it has one, and its keys."""
        line = next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)
        keys = ".".join(str(key) for key in path)
        return f"{self.source}{f':{line}' if line else ''}: {keys}" if keys else self.source


def read_document(source: str) -> Document:
    """Read a recipe from a path or URL."""
    try:
        with open_input(source, special_files=True) as stream:
            text = stream.read()
    except InputError as error:
        raise RecipeError(str(error)) from error
    return parse_document(text, source)


def parse_document(text: str | bytes, source: str) -> Document:
    """Parse a recipe."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise RecipeError(f"{source}{line}: this is not YAML: {problem}.") from error
    if not isinstance(root, yaml.MappingNode):
        raise RecipeError(f"{source}: a recipe is a mapping with a list of 'stages'; this file holds something else.")
    document = Document(source, {}, {})
    constructor = yaml.SafeLoader("")
    document.data = _convert(root, (), document, constructor)
    return document


def parse_value(text: str) -> Any:  # noqa: ANN401 - any YAML value
    """Parse the value of an override as YAML would: 80 is a number, [a, b] a list, null nothing.

    >>> parse_value("80"), parse_value("[a, b]"), parse_value("null"), parse_value("s3://x/y")
    (80, ['a', 'b'], None, 's3://x/y')
    """
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _convert(node: yaml.Node, path: Path, document: Document, constructor: yaml.SafeLoader) -> Any:  # noqa: ANN401
    document.lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(constructor.construct_object(key_node))
            if key in mapping:
                raise RecipeError(f"{document.source}:{key_node.start_mark.line + 1}: '{key}' is given twice.")
            mapping[key] = _convert(value_node, (*path, key), document, constructor)
            document.lines[(*path, key)] = key_node.start_mark.line + 1
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_convert(child, (*path, i), document, constructor) for i, child in enumerate(node.value)]
    return constructor.construct_object(node)
