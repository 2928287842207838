"""``penstock list`` prints the reference in a terminal."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from penstock.cli.list import command


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(command, arguments, env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    return done.output


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    return done.output


def test_categories_are_listed_with_their_number_of_entries() -> None:
    assert re.search(r"^filters +\d+ ", printed(), flags=re.MULTILINE)
    assert "recipes" in printed()


@pytest.mark.parametrize(
    ("category", "name"),
    [
        ("filters", "WordCountFilter"),
        ("modifiers", "UrlRemover"),
        ("readers", "JsonlReader"),
        ("writers", "ParquetWriter"),
        ("stages", "ScoreFilter"),
        ("workflows", "FuzzyDeduplicationWorkflow"),
        ("recipes", "english-web"),
    ],
)
def test_a_category_lists_its_names_and_a_name_is_described(category: str, name: str) -> None:
    assert re.search(rf"^{name} +\S", printed(category), flags=re.MULTILINE)
    assert printed(category, name).startswith(name)


def test_an_entry_has_signature_parameters_score_and_example() -> None:
    entry = printed("filters", "WordCountFilter")
    assert entry.startswith("WordCountFilter(min_words=50, max_words=100000, lang='en')")
    assert "min_words: int = 50" in entry
    assert "scores 0 and is dropped" in entry
    assert ">>> WordCountFilter(min_words=3)" in entry
    assert "MeanWordLengthFilter" in entry.partition("See also")[2]


def test_a_filter_is_found_by_the_name_it_has_in_tables_and_in_any_case() -> None:
    assert (
        printed("filters", "word_count")
        == printed("filters", "wordcountfilter")
        == printed("filters", "WordCountFilter")
    )


def test_listing_classifiers_says_that_there_are_none() -> None:
    assert "has no classifiers yet" in printed("classifiers")


def test_a_typo_is_answered_with_a_suggestion() -> None:
    assert "Did you mean 'filters'?" in refused("filtres")
    assert "Did you mean 'WordCountFilter'?" in refused("filters", "WordCuntFilter")
    assert "Did you mean 'fineweb'?" in refused("recipes", "fineweeb")


def test_a_name_of_another_category_is_answered_with_the_right_command() -> None:
    assert "Type: penstock list readers JsonlReader" in refused("filters", "JsonlReader")
