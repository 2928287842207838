"""Deduplication workflows from input files to output files, for all formats, block sizes and numbers of workers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpora import (
    COPIES,
    EDITED,
    FORMATS,
    KEPT_EXACT,
    KEPT_FUZZY,
    ORIGINALS,
    Write,
    contents,
    edited,
    essay,
    exact,
    fuzzy,
    ids,
    kept_by_removed,
    quiet,
    read_documents,
    removed_rows,
    write_corpus,
    write_jsonl,
)

from penstock import FileGroupTask, StreamingExecutor
from penstock.dedup.document_ids import ID_FIELD
from penstock.errors import InputError


@FORMATS
def test_exact_keeps_the_first_of_equal_texts_and_leaves_the_rest_unchanged(
    tmp_path: Path, kind: str, write: Write
) -> None:
    write_corpus(tmp_path, kind, write)
    result = exact(tmp_path, input_filetype=kind).run(quiet())
    assert result.get_metadata("num_duplicates") == 5
    kept = read_documents(tmp_path / "out/deduplicated")
    assert sorted(document["id"] for document in kept) == KEPT_EXACT
    originals = {document["id"]: document for document in [*ORIGINALS, *EDITED]}
    assert all(document == originals[document["id"]] for document in kept)
    assert kept_by_removed(tmp_path / "out", "Exact") == {f"c{n}": (f"o{n}", 1.0) for n in range(5)}


@FORMATS
def test_fuzzy_removes_near_duplicates_and_records_kept_document_and_similarity(
    tmp_path: Path, kind: str, write: Write
) -> None:
    write_corpus(tmp_path, kind, write)
    result = fuzzy(tmp_path, input_filetype=kind).run(quiet())
    assert result.get_metadata("num_duplicates") == 8
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY
    found = kept_by_removed(tmp_path / "out")
    assert {name: kept_id for name, (kept_id, _) in found.items()} == {
        **{f"c{n}": f"o{n}" for n in range(5)},
        **{f"e{n}": f"o{n}" for n in range(5, 8)},
    }
    for number in range(5, 8):
        one, other = essay(number), edited(essay(number), number)
        a, b = ({text[i : i + 24] for i in range(len(text) - 23)} for text in (one, other))
        assert found[f"e{number}"][1] == len(a & b) / len(a | b)
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").iterdir())


def test_kept_lines_are_copied_byte_for_byte(tmp_path: Path) -> None:
    lines = [b'{"id": 1,  "text":"same", "big": 123456789012345678901234567890, "n": 1.10}\n',
             b'{"text": "other\\u00e9", "id": "00123"}\n', b'{"id": 2, "text": "same"}\n']  # fmt: skip
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_bytes(b"".join(lines))
    exact(tmp_path).run(quiet())
    [written] = (tmp_path / "out/deduplicated").glob("*.jsonl")
    assert written.read_bytes() == lines[0] + lines[1]


def test_compressed_files_are_read_and_counted(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    for path in list((tmp_path / "in").rglob("*.jsonl")):
        path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    fuzzy(tmp_path).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY


@pytest.mark.parametrize("make", [exact, fuzzy])
def test_result_is_bit_identical_on_every_local_executor(tmp_path: Path, make: Callable[..., Any]) -> None:
    write_corpus(tmp_path)
    make(tmp_path, "one", input_blocksize="3KB").run(quiet())
    make(tmp_path, "two", input_blocksize="3KB").run(StreamingExecutor(show_progress=False, cpus=2))
    make(tmp_path, "three", input_blocksize="3KB", memory_budget="40KB").run(quiet())
    one = contents(tmp_path / "one")
    assert len(one) >= 3
    assert contents(tmp_path / "two") == one
    assert contents(tmp_path / "three") == one


@pytest.mark.ray
@pytest.mark.usefixtures("on_ray")
@pytest.mark.parametrize("make", [exact, fuzzy])
def test_result_is_bit_identical_on_a_cluster(tmp_path: Path, make: Callable[..., Any]) -> None:
    write_corpus(tmp_path)
    make(tmp_path, "one", input_blocksize="3KB").run(quiet())
    make(tmp_path, "two", input_blocksize="3KB").run(StreamingExecutor(show_progress=False, backend="ray"))
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


@FORMATS
@pytest.mark.parametrize("make", [exact, fuzzy])
def test_removed_documents_do_not_depend_on_block_size(
    tmp_path: Path, make: Callable[..., Any], kind: str, write: Write
) -> None:
    write_corpus(tmp_path, kind, write)
    tables = []
    for number, blocksize in enumerate((None, "3KB", "1MB")):
        output = f"out{number}"
        make(tmp_path, output, input_filetype=kind, input_blocksize=blocksize).run(quiet())
        tables.append(contents(tmp_path / output, ["*DuplicateIds/*"]))
        assert ids(tmp_path / output / "deduplicated") == (KEPT_EXACT if make is exact else KEPT_FUZZY)
    assert tables[0] == tables[1] == tables[2]


@pytest.mark.parametrize("use_64_bit_hash", [False, True])
@pytest.mark.parametrize("settings", [{"bands_per_iteration": 1}, {"bands_per_iteration": 7}, {"word_ngrams": 3}])
def test_clear_duplicates_are_found_with_any_rounds_hash_widths_and_shingles(
    tmp_path: Path, settings: dict[str, Any], use_64_bit_hash: bool
) -> None:
    write_corpus(tmp_path)
    fuzzy(tmp_path, use_64_bit_hash=use_64_bit_hash, **settings).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY


def test_documents_too_short_for_a_shingle_are_compared_exactly(tmp_path: Path) -> None:
    short = [("1", "short"), ("2", "short!"), ("3", "short"), ("4", ""), ("5", None), ("6", "  ")]
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": name, "text": text} for name, text in short])
    fuzzy(tmp_path, max_removed_share=1.0).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == ["1", "2", "4", "6"]


def test_normalisation_affects_comparison_but_not_the_output(tmp_path: Path) -> None:
    texts = ["The  Mill\tturns", "the mill turns", "Caf\u00e9", "cafe\u0301", "other"]
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": str(n), "text": text} for n, text in enumerate(texts)])
    exact(tmp_path, "plain").run(quiet())
    assert len(ids(tmp_path / "plain/deduplicated")) == 5
    exact(tmp_path, "exact", normalize_text=True).run(quiet())
    fuzzy(tmp_path, "fuzzy", normalize_text=True).run(quiet())
    for output in ("exact", "fuzzy"):
        kept = read_documents(tmp_path / output / "deduplicated")
        assert [document["text"] for document in kept] == ["The  Mill\tturns", "Caf\u00e9", "other"]


@pytest.mark.parametrize("make", [exact, fuzzy])
@pytest.mark.parametrize(
    ("keep", "stays"),
    [
        ("first", ["a1", "a2"]),
        ("longest", ["a1", "b2"]),
        ("best:score", ["a2", "b1"]),
        (["in/b", "in/a"], ["b1", "b2"]),
    ],
)
def test_keep_policy_selects_the_kept_document(tmp_path: Path, make: Any, keep: Any, stays: list[str]) -> None:
    """Documents 1 have the same text. Of documents 2 the second is longer: by spaces (exact) or by a word (fuzzy)."""
    text = essay(2, 300)
    longer = text + ("   " if make is exact else " indeed")
    write_jsonl(
        tmp_path / "in/a/x.jsonl",
        [{"id": "a1", "text": essay(1), "score": 1}, {"id": "a2", "text": text, "score": 0.5}],
    )
    write_jsonl(
        tmp_path / "in/b/x.jsonl",
        [{"id": "b1", "text": essay(1), "score": 2}, {"id": "b2", "text": longer, "score": 0.1}],
    )
    make(tmp_path, keep=keep, normalize_text=make is exact).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == stays


def test_repeated_ids_and_file_names_are_supported(tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        same, own = {"id": 7, "text": essay(1)}, {"id": 7, "text": essay(ord(folder))}
        write_jsonl(tmp_path / f"in/{folder}/part.jsonl", [same, own])
    paths = [str(tmp_path / f"in/{folder}/part.jsonl") for folder in ("a", "b", "c")]
    for output, given in (("folder", str(tmp_path / "in")), ("files", paths)):
        fuzzy(tmp_path, output, input_path=given).run(quiet())
        kept = read_documents(tmp_path / output / "deduplicated")
        assert sorted(document["text"] for document in kept) == sorted(essay(n) for n in (1, *map(ord, "abc")))


def test_initial_tasks_replace_input_path(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    tasks = [FileGroupTask("d", [str(path)]) for path in sorted((tmp_path / "in").rglob("*.jsonl"))]
    exact(tmp_path, input_path=None).run(executor=quiet(), initial_tasks=tasks)
    assert ids(tmp_path / "out/deduplicated") == KEPT_EXACT
    with pytest.raises(ValueError, match="input_path is missing"):
        exact(tmp_path, input_path=None).run(quiet())


@pytest.mark.parametrize("make", [exact, fuzzy])
def test_empty_input_removes_nothing(tmp_path: Path, make: Callable[..., Any]) -> None:
    write_jsonl(tmp_path / "in/a.jsonl", [])
    assert make(tmp_path).run(quiet()).get_metadata("num_duplicates") == 0


def test_second_run_replaces_the_output_of_the_first(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    fuzzy(tmp_path, similarity_threshold=1.0).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == KEPT_EXACT
    fuzzy(tmp_path, input_blocksize="2KB").run(quiet())
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY


def test_small_files_are_read_in_groups_and_written_one_by_one(tmp_path: Path) -> None:
    for number, document in enumerate([*ORIGINALS, *COPIES, *EDITED]):
        write_jsonl(tmp_path / f"in/{number:02d}.jsonl", [document])
    executor = quiet()
    fuzzy(tmp_path).run(executor)
    assert executor.last_summary is not None
    tasks = {counters.stage: counters.tasks for counters in executor.last_summary.counters}
    assert (tasks["sign_texts"], tasks["gather_texts"], tasks["remove_duplicates"]) == (1, 1, 19)
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY
    assert len(list((tmp_path / "out/deduplicated").glob("*.jsonl"))) == len(KEPT_FUZZY)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similarity_threshold": 0}, "similarity_threshold=0; it is a share"),
        ({"bands_per_iteration": 21}, "bands_per_iteration=21; it is between 1 and num_bands=20"),
        ({"input_filetype": "csv"}, "input_filetype='csv'; it is one of parquet, jsonl"),
        ({"keep": "newest"}, "keep='newest'"),
        ({"device": "tpu"}, "device='tpu'"),
    ],
)
def test_invalid_parameters_are_rejected_before_anything_is_read(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fuzzy(tmp_path, **settings)


def test_partition_count_that_does_not_fit_is_rejected_with_the_calculation(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": n, "text": "x"} for n in range(10_000)])
    with pytest.raises(InputError, match=r"total_nparts=1 does not fit: .* documents x 32 bytes"):
        exact(tmp_path, total_nparts=1, memory_budget="100KB").run(quiet())
    with pytest.raises(InputError, match="20 bands at a time in 2 partitions do not fit"):
        fuzzy(tmp_path, lsh_num_output_partitions=2, bands_per_iteration=20, memory_budget="1MB").run(quiet())


def test_table_of_duplicates_has_readable_columns(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    fuzzy(tmp_path).run(quiet())
    rows = removed_rows(tmp_path / "out/FuzzyDuplicateIds")
    assert list(rows[0]) == [ID_FIELD, "kept_id", "similarity", "estimated", "file", "kept_file"]
    assert {(row["file"], row["kept_file"]) for row in rows} == {
        ("in/b/part.jsonl", "in/a/part.jsonl"),
        ("in/b/more.jsonl", "in/a/part.jsonl"),
    }
    assert not any(row["estimated"] for row in rows)
    assert [row[ID_FIELD] for row in rows] == sorted(row[ID_FIELD] for row in rows)


@pytest.mark.parametrize("compiled", [True, False])
def test_first_run_on_a_machine_explains_compilation_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiled: bool
) -> None:
    monkeypatch.setattr("penstock.dedup.fuzzy.is_warm", lambda: compiled)
    write_corpus(tmp_path)
    fuzzy(tmp_path, show_progress=True, device="cpu").run(quiet())
    said = capsys.readouterr().err
    assert "Fuzzy deduplication of" in said
    assert ("Compiling" in said) is not compiled
