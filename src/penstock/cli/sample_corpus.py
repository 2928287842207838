"""Generate a small sample corpus with the defects of a real one.

The documents are docstrings of Python's standard library and its licences, which every installation has. Added to
them are duplicates, boilerplate, other languages, empty documents and lines that are not JSON.
"""

from __future__ import annotations

import ast
import builtins
import gzip
import json
import random
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MAX_DOCSTRINGS = 3000
_MIN_CHARACTERS = 200
_FILES = 4
_DUPLICATE_EVERY = 10

_BOILERPLATE = (
    "This website uses cookies to make your visit pleasant.\n\nBy staying you accept our cookie policy.",
    "Terms of use\n\nPlease read our privacy policy before you go on.\n\nAll rights reserved.",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.",
)
_OTHER_LANGUAGES = {
    "fr": "Le moulin tourne depuis trois siècles au bord de la rivière, et chaque printemps la crue en cache la roue.",
    "de": "Am Ufer steht eine alte Mühle, deren Rad sich nur noch an hohen Feiertagen für die Besucher dreht.",
    "es": "El molino viejo guarda todavía la rueda de madera que movía las piedras cuando bajaba el río crecido.",
    "ru": "Старая мельница стоит у самой воды, и весной половодье доходит до нижних ступеней её крыльца.",
    "zh": "河边的老磨坊已经有三百年的历史,每到春天,涨起来的河水总会淹没它的水轮。",
    "ja": "川のほとりの古い水車小屋は三百年の歴史を持ち、春になると増水が水車を隠してしまう。",
}
_BROKEN_LINES = (
    b'{"id": "broken-0", "text": "this line ends in the middle of',
    b"[1, 2, 3]",
    b'{"id": "broken-2", "text": "\xff\xfe is not UTF-8"}',
    b"<html>a page that lost its way</html>",
)


def make_sample(folder: Path) -> Counter[str]:
    """Write the corpus to a folder as JSONL files; return the number of documents of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = list(_documents())
    chance = random.Random(0)  # always the same sample from the same Python
    chance.shuffle(documents)
    for number in range(_FILES):
        lines = [_line(i, kind, text) for i, (kind, text) in enumerate(documents) if i % _FILES == number]
        lines.insert(len(lines) // 2, _BROKEN_LINES[number % len(_BROKEN_LINES)])
        data = b"\n".join(lines) + b"\n"
        if number == 0:
            (folder / "part-0.jsonl.gz").write_bytes(gzip.compress(data, mtime=0))
        else:
            (folder / f"part-{number}.jsonl").write_bytes(data)
    return Counter({**Counter(kind for kind, _ in documents), "broken lines": _FILES})


def _line(number: int, kind: str, text: str | None) -> bytes:
    document = {"id": f"doc-{number:05}", "text": text, "kind": kind}
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def _documents() -> Iterator[tuple[str, str | None]]:
    docstrings = list(_docstrings())
    for text in docstrings:
        yield "docstring", text
    for text in docstrings[::_DUPLICATE_EVERY]:
        yield "planted duplicate", text
    for text in _licences():
        yield "licence", text
    for number in range(150):
        yield "boilerplate", _BOILERPLATE[number % len(_BOILERPLATE)] + f"\n\nPage {number}. " + "Read on. " * 40
        yield "repeated line", f"Item {number} is out of stock.\n" * 30
        language, sentence = list(_OTHER_LANGUAGES.items())[number % len(_OTHER_LANGUAGES)]
        yield f"language {language}", f"{number}. " + f"{sentence} " * 4
    for number in range(60):
        yield "empty", (None, "", " \n\t ")[number % 3]


def _docstrings() -> Iterator[str]:
    """Yield docstrings of the standard library, of modules, classes and functions, in a fixed order."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found = 0
    for path in sorted(library.glob("*.py")) + sorted(library.glob("[a-z]*/*.py")):
        if path.parts[len(library.parts)] in ("site-packages", "test", "idlelib", "lib2to3", "dist-packages"):
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            continue  # a sample can do without files that do not parse
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text and len(text) > _MIN_CHARACTERS:
                    yield text
                    found += 1
                    if found == _MAX_DOCSTRINGS:
                        return


def _licences() -> Iterator[str]:
    """Yield each part of the texts of ``copyright``, ``credits`` and ``license()``."""
    for name in ("copyright", "credits", "license"):
        printer: Any = getattr(builtins, name, None)
        if printer is not None:  # absent only where Python runs without its site module
            printer._Printer__setup()
            yield from (part for part in "\n".join(printer._Printer__lines).split("\n\n\n") if part.strip())
