"""TokenCountFilter with real tokenizers, whole texts, and an error that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_tokenizer
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from penstock.errors import InputError
from penstock.testing import assert_stage_contract, make_batch, run_stage
from penstock.text import ScoreFilter, TokenCountFilter


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_tokenizer.save(tmp_path_factory.mktemp("tokenizer"))


class InPython:
    """A tokenizer without a compiled part."""

    def encode(self, text: str) -> list[str]:
        return ["<s>", *text.split(), "</s>"]


@pytest.mark.parametrize("kind", ["folder", "file", "transformers", "tokenizers", "python"])
def test_special_tokens_are_counted(folder: Path, kind: str) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "folder": {"hf_model_name": str(folder)},
        "file": {"hf_model_name": folder / "tokenizer.json"},
        "transformers": {"tokenizer": AutoTokenizer.from_pretrained(folder)},
        "tokenizers": {"tokenizer": Tokenizer.from_file(str(folder / "tokenizer.json"))},
        "python": {"tokenizer": InPython()},
    }
    stage = ScoreFilter(TokenCountFilter(min_tokens=3, max_tokens=9, **arguments[kind]), score_field="tokens")
    batch = make_batch(["one two", "one two three four five one two", "one " * 8, "", None])
    [kept] = run_stage(stage, batch)
    assert kept.to_pyarrow()["tokens"].to_pylist() == [4, 9]  # type: ignore[attr-defined]
    assert_stage_contract(stage, batch)


def test_empty_documents_have_only_special_tokens(folder: Path) -> None:
    [kept] = run_stage(
        ScoreFilter(TokenCountFilter(hf_model_name=folder), score_field="n"), make_batch(["", " \n", None])
    )
    assert kept.to_pyarrow()["n"].to_pylist() == [2, 2, 2]  # type: ignore[attr-defined]


def test_many_documents(folder: Path) -> None:
    texts = ["one " * (number % 7) for number in range(1000)]
    counter = TokenCountFilter(hf_model_name=folder)
    counter.load_tokenizer()
    assert counter.score_documents(texts) == [number % 7 + 2 for number in range(1000)]


def test_a_missing_tokenizer_is_an_error_with_advice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the tokenizer '.*none' is not on this machine.* Give the folder of a model"):
        run_stage(ScoreFilter(TokenCountFilter(hf_model_name=tmp_path / "none")), make_batch(["a"]))
    with pytest.raises(InputError, match=r"Give the folder of a model that has a tokenizer.json"):
        run_stage(ScoreFilter(TokenCountFilter(hf_model_name=tmp_path)), make_batch(["a"]))


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="either a tokenizer or an hf_model_name"):
        TokenCountFilter()
    with pytest.raises(ValueError, match="either a tokenizer or an hf_model_name"):
        TokenCountFilter(tokenizer=InPython(), hf_model_name="x")
    with pytest.raises(ValueError, match=r"has 'local_files_only'. Leave it out"):
        TokenCountFilter(hf_model_name="x", transformers_init_kwargs={"local_files_only": True})
