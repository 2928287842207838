"""Load recipes; errors in recipes are explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import Resources
from penstock.core.stage import WorkerLimits
from penstock.core.workflow import WorkflowBase
from penstock.errors import RecipeError
from penstock.recipe.recipe import Recipe, find_recipe, load_recipe, shipped_recipes
from penstock.text import ScoreFilter, WordCountFilter

GOOD = """\
input_path: ???
output_path: out/
min_words: 3
stages:
  - _target_: JsonlReader
    file_paths: ${input_path}/crawl
  - _target_: ScoreFilter
    filter_obj:
      _target_: penstock.text.WordCountFilter
      min_words: ${min_words}
    resources: {cpus: 2}
    name: long_enough
  - _target_: nemo_curator.stages.text.io.writer.JsonlWriter
    path: ${output_path}
"""


def load(folder: Path, text: str, *overrides: str) -> Recipe:
    path = folder / "job.yaml"
    path.write_text(text)
    return load_recipe(str(path), overrides)


def word_filter(recipe: Recipe) -> tuple[ScoreFilter, Any]:
    stage = recipe.pipeline.stages[1]
    assert isinstance(stage, ScoreFilter)
    return stage, stage.rules[0].filter


def test_a_recipe_becomes_a_pipeline(tmp_path: Path) -> None:
    recipe = load(tmp_path, GOOD, "input_path=data")
    stage, rule = word_filter(recipe)
    assert recipe.pipeline.name == "job"
    assert recipe.pipeline.stages[0].reads_from() == ["data/crawl"]
    assert isinstance(rule, WordCountFilter)
    assert rule.min_words == 3
    assert (stage.name, stage.resources) == ("long_enough", Resources(cpus=2))
    assert recipe.pipeline.stages[2].writes_to() == "out/"


def test_worker_limits_are_keys_of_a_stage_also_in_the_spelling_of_nemo_curator(tmp_path: Path) -> None:
    stage = "  - {_target_: ScoreFilter, filter_obj: {_target_: WordCountFilter}, "
    ours = stage + "max_worker_lifetime_s: 3600, max_tasks_per_worker: 5, max_worker_growth_gb: 2}\n"
    theirs = stage + (
        "xenna_stage_spec: {worker_max_lifetime_m: 60, worker_max_growth_gb: 2}, "
        "ray_stage_spec: {max_calls_per_worker: 5}}\n"
    )
    one, other = load(tmp_path, f"stages:\n{ours}{theirs}").pipeline.stages
    assert one.worker_limits() == other.worker_limits() == WorkerLimits(3600, 5, 2)


def test_overrides_change_variables_and_nested_values(tmp_path: Path) -> None:
    recipe = load(tmp_path, GOOD, "input_path=d", "min_words=80", "stages.1.filter_obj.max_words=90")
    _, rule = word_filter(recipe)
    assert (rule.min_words, rule.max_words) == (80, 90)


def test_overrides_can_set_settings_missing_from_the_recipe(tmp_path: Path) -> None:
    recipe = load(tmp_path, GOOD, "input_path=d", "name=other", "checkpoint_path=state")
    assert (recipe.pipeline.name, recipe.checkpoint_path) == ("other", "state")


MISTAKES = [
    # text in the recipe, its replacement, expected error
    ("ScoreFilter", "ScoreFliter", ":7: stages.1._target_: there is no 'ScoreFliter' in Penstock. Did you mean 'ScoreFilter'?"),
    ("min_words: ${", "min_wrods: ${", ":10: stages.1.filter_obj.min_wrods: penstock.text.WordCountFilter has no parameter 'min_wrods'"),
    ("${min_words}", "${min_wrods}", ":10: stages.1.filter_obj.min_words: ${min_wrods} is not defined in this recipe. Did you"),
    ("output_path: out/", "output_path: out/\nmdoe: error", ":3: mdoe: unknown key"),
    ("stages:", "stagse:", ":4: stagse: unknown key"),
    ("text.WordCountFilter", "text.WordCountFliter", "'penstock.text' has no 'WordCountFliter'. Did you mean 'WordCountFilter'?"),
    ("penstock.text.WordCountFilter", "no_such_module.Filter", "there is no module 'no_such_module'"),
    ("stages.text.io.writer.JsonlWriter", "tasks.DocumentBach", "Penstock has no such name. Nearest: DocumentBatch"),
    ("cpus: 2", "cpus: -2", ":7: stages.1: ScoreFilter: Resources(cpus=-2): expected a finite number"),
    ("_target_: JsonlReader", "_target_: JsonlReader\n    blocksize: 1MB\n    files_per_partition: 2", "exclude each other"),
    ("  - _target_: JsonlReader", "  - target: JsonlReader", "a stage is a mapping with a _target_"),
    ("JsonlReader", "WordCountFilter", "has no parameter 'file_paths'"),
    ("min_words: 3", "min_words: 3\nmin_words: 4", ":4: the key 'min_words' appears twice"),
    ("stages:", "stages: [", "this is not YAML"),
    ("min_words: 3", "min_words: ${min_words}", "refers to itself"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES)
def test_recipe_errors_name_file_line_and_correction(tmp_path: Path, old: str, new: str, expected: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, GOOD.replace(old, new), "input_path=data")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], "this recipe needs input_path. Add to the command: input_path=…"),
        (["input_path"], "'input_path' is not an override. Write key=value"),
        (["inptu_path=x"], "the recipe has no 'inptu_path'; it has input_path, output_path, min_words, stages."),
        (["stages.9.path=x"], "'stages' is a list; use a number from 0 to 2"),
        (["min_words.a=x"], "'min_words' is 3, which contains no other values"),
    ],
)
def test_wrong_overrides_are_explained(tmp_path: Path, overrides: list[str], expected: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, GOOD, *overrides)
    assert expected in str(caught.value)


def test_stages_next_to_the_recipe_are_found(tmp_path: Path) -> None:
    (tmp_path / "stages_beside_recipe.py").write_text(
        "from penstock import ProcessingStage\nclass Mine(ProcessingStage):\n    def process(self, task): return task\n"
    )
    recipe = load(tmp_path, "stages:\n  - _target_: stages_beside_recipe.Mine\n    batch_size: 4\n")
    assert (recipe.pipeline.stages[0].name, recipe.pipeline.stages[0].batch_size) == ("Mine", 4)


def test_built_in_recipes_are_found_by_name_and_can_be_planned() -> None:
    assert "english-web" in shipped_recipes()
    for name in shipped_recipes():
        recipe = load_recipe(name, ["input_path=in", "output_path=out"])
        assert isinstance(recipe.job, WorkflowBase) or recipe.pipeline.build()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: x\n", "this one has neither"),
        ("stages: []\nworkflow: {_target_: FuzzyDeduplicationWorkflow}\n", "this one has both"),
        ("workflow: {_target_: JsonlReader, file_paths: in}\n", "workflow: a workflow is a mapping with a _target_"),
        ("workflow: {_target_: ExactDeduplicationWorkflow, output: out}\n", "has no parameter 'output'"),
    ],
)
def test_a_recipe_has_either_stages_or_a_workflow(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, text)
    assert expected in str(caught.value)


def test_a_workflow_refuses_a_checkpoint(tmp_path: Path) -> None:
    recipe = load(tmp_path, "workflow: {_target_: ExactDeduplicationWorkflow, output_path: out, input_path: in}\n")
    with pytest.raises(RecipeError, match="resumes without a checkpoint"):
        recipe.run("state")


def test_an_unknown_recipe_suggests_the_nearest() -> None:
    with pytest.raises(RecipeError, match="Did you mean 'english-web'"):
        find_recipe("english-wep")
