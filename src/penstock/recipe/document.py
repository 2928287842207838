"""Parse a YAML recipe into plain data with the line number of each entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from penstock.errors import InputError, RecipeError
from penstock.storage.filesystem import open_input

Path = tuple[str | int, ...]

# A recipe is a page of text. These limits stop files that would exhaust the memory (aliases of aliases of aliases).
MAX_BYTES = 1_000_000
MAX_ENTRIES = 20_000
MAX_DEPTH = 100
# Longer numbers and dates take quadratic time to parse.
_MAX_NUMBER_LENGTH = 400
_MERGE_TAG = "tag:yaml.org,2002:merge"
_TEXT_TAG = "tag:yaml.org,2002:str"


@dataclass
class Document:
    """Hold the data of a recipe, its source and the line of each entry."""

    source: str
    data: dict[str, Any]
    lines: dict[Path, int]
    # Top-level keys whose value, or a part of it, is repeated elsewhere by an alias.
    repeated: set[str] = field(default_factory=set)

    def where(self, path: Path) -> str:
        """Return the place of an entry for error messages: file, line if known, and dotted keys."""
        line = next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)
        keys = ".".join(str(key) for key in path)
        return f"{self.source}{f':{line}' if line else ''}: {keys}" if keys else self.source

    @property
    def is_remote(self) -> bool:
        """Whether the recipe was read from another machine and is therefore not trusted."""
        return "://" in self.source and ("::" in self.source or not self.source.startswith(("file://", "local://")))


def read_document(source: str) -> Document:
    """Read and parse a recipe from a path or URL."""
    try:
        with open_input(source, special_files=True) as stream:
            text = stream.read(MAX_BYTES + 1)
    except InputError as error:
        raise RecipeError(str(error)) from error
    return parse_document(text, source)


def parse_document(text: str | bytes, source: str) -> Document:
    """Parse the text of a recipe; raise RecipeError if it is not a YAML mapping within the limits."""
    if len(text) > MAX_BYTES:
        raise RecipeError(
            f"{source}: this file is larger than {MAX_BYTES:,} bytes, the limit for a recipe. "
            "Put long lists into separate files and name those in the recipe."
        )
    root = _compose(text, source)
    if not isinstance(root, yaml.MappingNode):
        raise RecipeError(f"{source}: a recipe is a mapping with a list of 'stages'; this file is not a mapping.")
    document = Document(source, {}, {})
    document.data = _Conversion(document).convert(root, ())
    return document


def parse_value(text: str, source: str = "value") -> Any:  # noqa: ANN401 - any YAML value
    """Parse the value of an override as YAML: 80 is a number, [a, b] a list, null is None.

    >>> parse_value("80"), parse_value("[a, b]"), parse_value("null"), parse_value("s3://x/y")
    (80, ['a', 'b'], None, 's3://x/y')
    """
    try:
        root = yaml.compose(text, Loader=_BoundedLoader)
    except _LimitExceeded as error:
        raise RecipeError(f"{source}: {error}") from error
    except yaml.YAMLError:
        return text
    return None if root is None else _Conversion(Document(source, {}, {})).convert(root, ())


class _LimitExceeded(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


class _BoundedLoader(yaml.SafeLoader):
    """Compose nodes and raise as soon as a limit is exceeded; composing is recursive, so depth is checked early."""

    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self._depth = self._entries = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        self._entries += 1
        if self._depth > MAX_DEPTH or self._entries > MAX_ENTRIES:
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise _LimitExceeded(line, _too_deep() if self._depth > MAX_DEPTH else _too_many())
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _too_deep() -> str:
    return f"entries are nested more than {MAX_DEPTH} levels deep, the limit for a recipe."


def _too_many() -> str:
    return (
        f"the recipe has more than {MAX_ENTRIES:,} entries, counting each use of an alias (*name) in full. "
        "That is the limit for a recipe."
    )


def _compose(text: str | bytes, source: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_BoundedLoader)
    except _LimitExceeded as error:
        raise RecipeError(f"{source}:{error.line}: {error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise RecipeError(f"{source}{line}: this is not YAML: {problem}.") from error
    return node


class _Conversion:
    """Convert YAML nodes to data; every use of an alias counts with all the entries it repeats."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._constructor = yaml.SafeLoader("")
        self._entries = 0
        # The top-level key under which each node was first seen.
        self._first_seen: dict[int, str | int] = {}
        # Nodes that are being converted; a node that contains itself through an alias would recurse forever.
        self._open: set[int] = set()

    def convert(self, node: yaml.Node, path: Path) -> Any:  # noqa: ANN401 - any YAML value
        self._document.lines[path] = node.start_mark.line + 1
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            self._refuse(path, _too_many())
        if len(path) > MAX_DEPTH:
            self._refuse(path, _too_deep())
        if id(node) in self._open:
            self._refuse(path, "an alias (*name) is inside the entry that it repeats.")
        if path:
            if id(node) in self._first_seen:
                self._document.repeated.add(str(self._first_seen[id(node)]))
            self._first_seen.setdefault(id(node), path[0])
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        self._open.add(id(node))
        made = self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._list(node, path)
        self._open.remove(id(node))
        return made

    def _list(self, node: yaml.Node, path: Path) -> list[Any]:
        return [self.convert(child, (*path, i)) for i, child in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE_TAG:
                for other in reversed(self._merged(value_node)):  # the first of several wins
                    mapping.update(self.convert(other, path))
        own: set[str] = set()
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE_TAG:
                continue
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise RecipeError(f"{self._document.source}:{line}: a key must be a word, not a list or a mapping.")
            key = str(self._scalar(key_node))
            if key in own:
                raise RecipeError(f"{self._document.source}:{line}: the key '{key}' appears twice.")
            own.add(key)
            mapping[key] = self.convert(value_node, (*path, key))
            self._document.lines[(*path, key)] = line
        return mapping

    def _merged(self, node: yaml.Node) -> list[yaml.Node]:
        """Return the mappings that ``<<`` merges: one alias, or a list of them."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not all(isinstance(one, yaml.MappingNode) for one in nodes):
            line = node.start_mark.line + 1
            raise RecipeError(f"{self._document.source}:{line}: '<<' takes the alias of a mapping, or a list of them.")
        return list(nodes)

    def _scalar(self, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - any YAML value
        where = f"{self._document.source}:{node.start_mark.line + 1}"
        if node.tag != _TEXT_TAG and len(node.value) > _MAX_NUMBER_LENGTH:
            raise RecipeError(f"{where}: {node.value[:40]!r}… is too long for a number or date. Put text in quotes.")
        try:
            return self._constructor.construct_object(node)
        except yaml.YAMLError as error:
            raise RecipeError(f"{where}: {getattr(error, 'problem', None) or error}.") from error
        except ValueError as error:
            raise RecipeError(
                f"{where}: {node.value!r} looks like a number or date, but is not valid ({error}). Put text in quotes."
            ) from error

    def _refuse(self, path: Path, problem: str) -> NoReturn:
        # Name the top-level entry that contains the alias, because an alias has no line of its own.
        raise RecipeError(f"{self._document.where(path[:1])}: {problem}")
