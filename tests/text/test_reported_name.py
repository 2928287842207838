"""Names of filters and modifiers in tables, receipts and errors."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest

import penstock.text
from penstock.text import DocumentFilter, DocumentModifier, Modify, ScoreFilter
from penstock.text.filters.document_filter import ScannedFilter
from penstock.text.filters.fasttext import FastTextFilter
from penstock.text.modifiers.document_modifier import TextModifier

BASES = {DocumentFilter, ScannedFilter, FastTextFilter, DocumentModifier, TextModifier}


def named_classes() -> list[Any]:
    public = [getattr(penstock.text, name) for name in penstock.text.__all__]
    return [
        given
        for given in public
        if isinstance(given, type) and issubclass(given, DocumentFilter | DocumentModifier) and given not in BASES
    ]


def snake_case(class_name: str) -> str:
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", class_name.removesuffix("Filter"))
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()


@pytest.mark.parametrize("cls", named_classes(), ids=lambda cls: cls.__name__)
def test_name_is_the_class_name_in_snake_case_without_filter(cls: Any) -> None:
    name = cls(n=4).name.replace("4", "n") if "NGrams" in cls.__name__ else cls.name
    assert name == snake_case(cls.__name__)


def test_names_are_unique() -> None:
    names = [cls.name for cls in named_classes()]
    assert len(set(names)) == len(names) > 40


class Unnamed(DocumentFilter):
    def score_document(self, text: str) -> int:
        return len(text)

    def keep_document(self, score: int) -> bool:
        return score > 0


class UnnamedToo(Unnamed):
    pass


class Chosen(Unnamed):
    name = "chosen"


def test_a_filter_without_a_name_is_called_by_its_class() -> None:
    assert ScoreFilter(Unnamed()).name == "Unnamed"
    assert ScoreFilter(UnnamedToo()).name == "UnnamedToo"


def test_a_filter_can_set_its_name() -> None:
    assert ScoreFilter(Chosen()).name == "chosen"


def test_former_name_of_a_class_still_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="Former sets _name. Write name instead"):

        class Former(Unnamed):
            _name = "former"

    assert ScoreFilter(Former()).name == "former"
    assert Former()._name == "former"


class SetInConstructor(DocumentModifier):
    def __init__(self, label: str) -> None:
        super().__init__()
        self._name = f"set_{label}"

    def modify_document(self, text: str) -> str:
        return text


def test_former_name_of_an_object_still_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="SetInConstructor sets _name") as warned:
        made = SetInConstructor("here")
    assert warned[0].filename == __file__
    assert Modify(made).name == "set_here"
    assert pickle.loads(pickle.dumps(made)).name == "set_here"
