"""Split a docstring into its summary, its description, its sections and its example."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

# A section starts with one of these words and a colon on a line of its own; its lines are indented.
SECTIONS = ("Args", "Parameters", "Returns", "Raises", "See also")
_HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):$")


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring. ``example`` is the doctest, prompts and results included."""

    summary: str = ""
    description: str = ""
    sections: dict[str, list[str]] = field(default_factory=dict)
    example: str = ""


def parse(text: str | None) -> Docstring:
    r"""Split a docstring.

    >>> parsed = parse("Add one.\n\nSlowly.\n\nRaises:\n    ValueError: n is negative\n\n>>> 1 + 1\n2\n")
    >>> parsed.summary, parsed.description, parsed.sections["Raises"], parsed.example
    ('Add one.', 'Slowly.', ['ValueError: n is negative'], '>>> 1 + 1\n2')
    """
    summary, _, rest = inspect.cleandoc(text or "").partition("\n\n")
    description: list[str] = []
    example: list[str] = []
    sections: dict[str, list[str]] = {}
    for paragraph in rest.split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        heading = _HEADING.match(lines[0])
        if lines[0].startswith(">>>"):
            example.append("\n".join(lines))
        elif heading:
            sections[heading[1]] = [line.strip() for line in lines[1:]]
        elif paragraph.strip():
            description.append("\n".join(lines))
    return Docstring(" ".join(summary.split()), "\n\n".join(description), sections, "\n\n".join(example))


def described(lines: list[str]) -> dict[str, str]:
    """Return ``name: text`` lines of a section as a dictionary; a line without a name continues the one before it.

    >>> described(["words: at least this", "many", "lang: a code"])
    {'words': 'at least this many', 'lang': 'a code'}
    """
    found: dict[str, str] = {}
    for line in lines:
        name, colon, text = line.partition(":")
        if colon and re.fullmatch(r"[\w.*]+", name):
            found[name] = text.strip()
        elif found:
            last = list(found)[-1]
            found[last] = f"{found[last]} {line}"
    return found
