"""Every built-in recipe runs unchanged and keeps the expected documents of a small generated corpus."""

import json
from pathlib import Path

import pytest

from penstock import InlineExecutor
from penstock.recipe.recipe import load_recipe, shipped_recipes

PROSE = (
    "The mill at the river has been there for as long as anybody can remember. In spring, when snow melts in the "
    "mountains, its wheel turns day and night, and farmers bring what is left of last year's rye. My grandmother used "
    "to tell us children that a water spirit lived below the weir, so we never went near it after dark. Today "
    "a small museum keeps those old stones, and visitors may grind a handful of wheat with their own hands. Come!"
)
RUSSIAN = (
    "Старая мельница стоит у самой воды, и весной половодье доходит до нижних ступеней её крыльца. Когда тает снег, "
    "колесо вертится днём и ночью, а крестьяне везут сюда остатки прошлогодней ржи. Бабушка рассказывала нам, будто "
    "под плотиной живёт водяной, поэтому после заката мы туда никогда не ходили. Теперь здесь маленький музей, где "
    "каждый гость может сам смолоть горсть пшеницы, потрогать жернова и послушать, как шумит река за тонкой стеной."
)
PYTHON = '"""Adds numbers."""\n\n\ndef add(one, other):\n    """Return the sum."""\n    # Nothing else.\n    return one + other\n'
DOCUMENTS: dict[str, str | None] = {
    "prose": PROSE,
    "russian": RUSSIAN,
    "python": PYTHON,
    "repeated": "This item is out of stock.\n" * 30,
    "boilerplate": "We use cookies.\n\nRead our privacy policy.\n\nAll rights reserved.",
    "table": "[1, 2, 3],\n" * 30,
    "short": "Too short.",
    "empty": "",
    "null": None,
}
KEPT = {
    "c4": {"prose", "repeated"},
    "code": {"python"},
    "english-web": {"prose"},
    "fineweb": {"prose"},
    "gopher": {"prose"},
    "multilingual": {"prose", "russian"},
}


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_built_in_recipe_keeps_the_expected_documents(tmp_path: Path, name: str) -> None:
    source = tmp_path / "crawl.jsonl"
    source.write_text("".join(json.dumps({"id": key, "body": text}) + "\n" for key, text in DOCUMENTS.items()))
    overrides = [f"input_path={source}", f"output_path={tmp_path / 'clean'}", "text_field=body"]
    load_recipe(name, overrides).pipeline.run(InlineExecutor(show_progress=False))
    lines = [line for path in (tmp_path / "clean").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert {json.loads(line)["id"] for line in lines} == KEPT[name]


def test_every_built_in_recipe_is_tested_here() -> None:
    assert set(KEPT) <= set(shipped_recipes())
