"""MegatronTokenizerWriter, read back by an independent reader of the published file layout."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_tokenizer

from penstock import InlineExecutor, Pipeline, ProcessingStage
from penstock.errors import InputError, OutputError, StageError
from penstock.testing import make_batch, run_stage
from penstock.text import JsonlReader, MegatronTokenizerWriter

TYPES = {4: np.int32, 8: np.uint16}


def read(index_path: Path) -> tuple[list[list[int]], type]:
    """Return the sequences of a pair of files, and the type of their tokens.

    Written from the description of Megatron's indexed datasets, not from the writer.
    """
    index = index_path.read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, borders = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    position = 34
    lengths = np.frombuffer(index, "<i4", sequences, position)
    position += 4 * sequences
    pointers = np.frombuffer(index, "<i8", sequences, position)
    position += 8 * sequences
    documents = np.frombuffer(index, "<i8", borders, position)
    assert position + 8 * borders == len(index)
    assert documents.tolist() == list(range(sequences + 1))
    data = index_path.with_suffix(".bin").read_bytes()
    kind = TYPES[code]
    read = [np.frombuffer(data, kind, n, start).tolist() for n, start in zip(lengths, pointers, strict=True)]
    assert sum(lengths) * np.dtype(kind).itemsize == len(data)
    return read, kind


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_tokenizer.save(tmp_path_factory.mktemp("tokenizer"))


def ids(folder: Path) -> dict[str, int]:
    from transformers import AutoTokenizer

    vocabulary: dict[str, int] = AutoTokenizer.from_pretrained(folder).get_vocab()
    return vocabulary


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_each_document_is_a_sequence_even_an_empty_one(tmp_path: Path, folder: Path, size: int) -> None:
    batch = make_batch(["one two three four five one", "", None, " \n", "two"])
    [written] = run_stage(MegatronTokenizerWriter(tmp_path / "out", folder, tokenization_batch_size=size), batch)
    known = ids(folder)
    first = [known[word] for word in ["one", "two", "three", "four", "five", "one"]]
    [index] = (tmp_path / "out").glob("*.idx")
    assert read(index) == ([first, [], [], [], [known["two"]]], np.uint16)
    assert written.data == [str(index.with_suffix(".bin")), str(index)]
    assert written._metadata["num_tokens"] == 7
    assert written._metadata["token_size"] == 2


def test_the_end_of_a_text_can_be_marked(tmp_path: Path, folder: Path) -> None:
    stage = MegatronTokenizerWriter(tmp_path / "out", folder, text_field="body", append_eod=True)
    run_stage(stage, make_batch(["one", None], text_field="body"))
    known = ids(folder)
    [index] = (tmp_path / "out").glob("*.idx")
    assert read(index)[0] == [[known["one"], known["<eod>"]], [known["<eod>"]]]


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    large = tiny_tokenizer.save(tmp_path / "tokenizer", vocabulary=70_000)
    run_stage(MegatronTokenizerWriter(tmp_path / "out", large), make_batch(["w69999 one"]))
    [index] = (tmp_path / "out").glob("*.idx")
    sequences, kind = read(index)
    assert kind is np.int32
    assert sequences == [[ids(large)["w69999"], ids(large)["one"]]]
    assert max(ids(large).values()) > 2**16


def test_a_second_run_writes_the_same_files(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.jsonl").write_text('{"text": "one two"}\n{"text": "three"}\n')
    contents = []
    for output in ("first", "second"):
        stages: list[ProcessingStage[Any, Any]] = [
            JsonlReader(tmp_path / "in"),
            MegatronTokenizerWriter(tmp_path / output, folder),
        ]
        Pipeline("tokens", stages=stages).run(InlineExecutor(show_progress=False))
        contents.append({path.name: path.read_bytes() for path in (tmp_path / output).iterdir() if path.is_file()})
    assert contents[0] == contents[1]
    assert len(contents[0]) == 6


def test_a_batch_without_tokens_writes_no_file(tmp_path: Path, folder: Path) -> None:
    stage = MegatronTokenizerWriter(tmp_path / "out", folder)
    run_stage(stage, make_batch(["one"]))
    assert len(list((tmp_path / "out").iterdir())) == 2
    for texts in (["", None], []):
        assert run_stage(stage, make_batch(texts)) == []
        assert list((tmp_path / "out").iterdir()) == []


def test_mode_overwrite_removes_the_index_too_and_mode_error_refuses(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("old.bin", "old.idx"):
        (tmp_path / "out" / name).write_bytes(b"old")
    with pytest.raises(OutputError, match="already contains 2 files"):
        MegatronTokenizerWriter(tmp_path / "out", folder, mode="error").before_run(resuming=False)
    MegatronTokenizerWriter(tmp_path / "out", folder, mode="overwrite").before_run(resuming=True)
    assert len(list((tmp_path / "out").iterdir())) == 2
    MegatronTokenizerWriter(tmp_path / "out", folder, mode="overwrite").before_run(resuming=False)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_failure_half_way_leaves_no_file(tmp_path: Path, folder: Path) -> None:
    stage = MegatronTokenizerWriter(tmp_path / "out", folder, tokenization_batch_size=1)
    stage.setup()

    class Failing:
        eos_token_id, vocab_size = None, 4

        def __len__(self) -> int:
            return 4

        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            return [1, 2, 3] if text == "good" else [][1]

    stage._tokenizer = Failing()
    with pytest.raises(IndexError):
        stage.process(make_batch(["good", "bad"]))
    assert list((tmp_path / "out").iterdir()) == []


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    without = tiny_tokenizer.save(tmp_path / "tokenizer", eos=None)
    with pytest.raises(InputError, match="has no end-of-text token"):
        run_stage(MegatronTokenizerWriter(tmp_path / "out", without, append_eod=True), make_batch(["a"]))
    with pytest.raises(StageError, match="column 'n' holds int64, not text"):
        run_stage(MegatronTokenizerWriter(tmp_path / "out", without, text_field="n"), make_batch(["a"], n=[1]))
    with pytest.raises(ValueError, match="Write hf_token"):
        MegatronTokenizerWriter(tmp_path / "out", "x", transformers_init_kwargs={"token": "secret"})
    with pytest.raises(ValueError, match="1 or more"):
        MegatronTokenizerWriter(tmp_path / "out", "x", tokenization_batch_size=0)
