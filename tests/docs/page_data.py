"""Data that guides speak of: ``crawl/``, made where a page says ``<!-- data: crawl -->``."""

from __future__ import annotations

import json
import random
from pathlib import Path

_FILES, _DOCUMENTS = 2, 60
_WORDS = [
    "river",
    "mill",
    "wheel",
    "water",
    "stone",
    "bread",
    "flour",
    "miller",
    "village",
    "bridge",
    "winter",
    "spring",
    "summer",
    "market",
    "road",
    "farmer",
    "horse",
    "cart",
    "window",
    "garden",
    "orchard",
    "apple",
    "honey",
    "candle",
    "letter",
    "story",
    "evening",
    "morning",
    "neighbour",
    "child",
    "song",
    "market",
    "harvest",
]


def make_crawl(folder: Path) -> None:
    """Write pages of prose, a third of them short, every fifth a copy of the one before it."""
    folder.mkdir()
    draw = random.Random(0)
    lines: list[str] = []
    for number in range(_DOCUMENTS):
        text = _prose(draw, sentences=2 if number % 3 == 1 else 12)
        if number % 5 == 4:
            text = json.loads(lines[-1])["text"]
        record = {"id": f"doc-{number:05}", "url": f"https://example.org/{number // 2}", "text": text}
        lines.append(json.dumps(record))
    for file in range(_FILES):
        (folder / f"part-{file}.jsonl").write_text("\n".join(lines[file::_FILES]) + "\n")


def _prose(draw: random.Random, sentences: int) -> str:
    made = [
        f"The {' of the '.join(draw.sample(_WORDS, 3))} has been with us and that is good." for _ in range(sentences)
    ]
    return "\n".join(made)


MAKERS = {"crawl": make_crawl}
