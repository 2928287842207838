"""Recipes that would exhaust memory or recurse forever are refused; ordinary anchors and aliases work."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from penstock.errors import RecipeError
from penstock.recipe.document import MAX_BYTES, parse_document, parse_value
from penstock.recipe.recipe import Recipe, load_recipe
from penstock.text import ScoreFilter

STAGES = "stages:\n  - {_target_: JsonlReader, file_paths: in}\n"


def load(folder: Path, text: str, *overrides: str) -> Recipe:
    path = folder / "job.yaml"
    path.write_text(text)
    return load_recipe(str(path), overrides)


def doubling(first: str, template: str, steps: int) -> str:
    """Return entries a0, a1, …: each ten times the one before."""
    lines = [f"a0: {first}"]
    lines += [f"a{n}: {template.format(n=n, ten=n - 1)}" for n in range(1, steps)]
    return "\n".join(lines) + "\n"


ALIASES = doubling("&a0 [x,x,x,x,x,x,x,x,x,x]", "&a{n} [" + ",".join(["*a{ten}"] * 10) + "]", 12)
MERGES = doubling("&a0 {x: 1}", "&a{n} {{<<: [" + ",".join(["*a{ten}"] * 10) + "]}}", 12)
TEXTS = doubling("xxxxxxxxxx", '"' + "${{a{ten}}}" * 10 + '"', 12)
LISTS = doubling("x", "[" + ",".join(['"${{a{ten}}}"'] * 10) + "]", 12)
CHAIN = "a0: x\n" + "".join(f"a{n}: ${{a{n - 1}}}\n" for n in range(1, 5000))
MANY_USES = f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 10_000)}]\nname: '${{b}} and more'\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{ALIASES}stages: *a11\n", "job.yaml:5: a4: the recipe has more than 20,000 entries"),
        (f"{MERGES}stages: [*a11]\n", "the recipe has more than 20,000 entries"),
        (f"{TEXTS}name: ${{a11}}\n{STAGES}", "job.yaml:13: name: the recipe has more than"),
        (f"{LISTS}stages: ${{a11}}\n", "job.yaml:13: stages.0"),
        (f"{CHAIN}name: ${{a4999}}\n{STAGES}", "job.yaml:5001: name: entries are nested more than 100 levels deep"),
        (f"{MANY_USES}{STAGES}", "job.yaml:3: name.99: the recipe has more than 10,000,000 characters"),
        ("stages: &s\n  - *s\n", "job.yaml:1: stages: an alias (*name) is inside the entry that it repeats"),
        ("stages: &s {<<: *s}\n", "an alias (*name) is inside the entry that it repeats"),
        ("name: x\nstages: " + "[" * 5000 + "]" * 5000, "job.yaml:2: entries are nested more than 100 levels deep"),
        ("stages:\n" + "- x\n" * 30_000, "job.yaml:19999: the recipe has more than 20,000 entries"),
        (f"name: {':'.join(['1'] * 50_000)}\n{STAGES}", "job.yaml:1: '1:1:1:"),
        (f"name: {'1' * 400_000}\n{STAGES}", "job.yaml:1: '11111"),
        (f"{STAGES}# {'x' * MAX_BYTES}", f"job.yaml: this file is larger than {MAX_BYTES:,} bytes"),
        (f"name: 2024-13-45\n{STAGES}", "job.yaml:1: '2024-13-45' looks like a number or date, but is not valid"),
        (f"name: !!python/name:os.system x\n{STAGES}", "job.yaml:1: could not determine a constructor"),
        (f"? [a, b]\n: x\n{STAGES}", "job.yaml:1: a key must be a word"),
        (f"a: &a x\nb: {{<<: *a}}\n{STAGES}", "job.yaml:1: '<<' takes the alias of a mapping"),
    ],
)  # fmt: skip
def test_a_recipe_beyond_the_limits_is_refused_with_file_and_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, text)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_compressed_recipe_that_decompresses_to_a_large_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.yaml.gz").write_bytes(gzip.compress(b"#" * 50_000_000))
    with pytest.raises(RecipeError, match="larger than 1,000,000 bytes"):
        load_recipe(str(tmp_path / "job.yaml.gz"))


def test_overrides_have_the_same_limits_as_recipes() -> None:
    assert parse_value("{a: &x [1, 2], b: *x}") == {"a": [1, 2], "b": [1, 2]}
    with pytest.raises(RecipeError, match="override 'a': entries are nested more than 100 levels deep"):
        parse_value("[" * 200 + "]" * 200, "override 'a'")


def test_anchors_aliases_and_merge_keys_follow_yaml(tmp_path: Path) -> None:
    recipe = load(
        tmp_path,
        "defaults: &defaults {text_field: body, score_field: words, invert: false}\n"
        "others: &others {text_field: other, verbose: true}\n"
        "words: &words 7\n"
        "stages:\n"
        "  - {_target_: JsonlReader, file_paths: in}\n"
        "  - <<: [*defaults, *others]\n"
        "    _target_: ScoreFilter\n"
        "    invert: true\n"
        "    filter_obj: {_target_: WordCountFilter, min_words: *words}\n",
    )
    stage = recipe.pipeline.stages[1]
    assert isinstance(stage, ScoreFilter)
    [rule] = stage.rules
    assert vars(rule.filter)["min_words"] == 7
    assert (rule.text_field, rule.score_field, rule.invert) == ("body", "words", True)


def test_errors_in_merged_entries_name_the_line_of_the_original_mapping() -> None:
    document = parse_document("a: &a\n  x: 1\n  y: 2\nb:\n  <<: *a\n  y: 3\n", "f")
    assert document.data["b"] == {"x": 1, "y": 3}
    assert (document.lines[("b", "x")], document.lines[("b", "y")]) == (2, 6)
