"""Removal in a separate step: by file and position or by an id column, also if the data was moved or regrouped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from corpora import (
    FORMATS,
    KEPT_FUZZY,
    Write,
    exact,
    fuzzy,
    ids,
    quiet,
    read_documents,
    write_corpus,
    write_jsonl,
    write_parquet,
)

from penstock.dedup import TextDuplicatesRemovalWorkflow
from penstock.errors import InputError, PenstockError


@FORMATS
@pytest.mark.parametrize("read", [{"input_blocksize": "2KB"}, {"input_files_per_partition": 3}, {}])
def test_removal_does_not_depend_on_how_the_data_is_read(
    tmp_path: Path, kind: str, write: Write, read: dict[str, Any]
) -> None:
    write_corpus(tmp_path, kind, write)
    fuzzy(tmp_path, input_filetype=kind, input_blocksize="5KB", perform_removal=False).run(quiet())
    assert not (tmp_path / "out/deduplicated").exists()
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "in", tmp_path / "elsewhere/crawl")
    result = TextDuplicatesRemovalWorkflow(
        str(tmp_path / "elsewhere/crawl"),
        str(tmp_path / "out/FuzzyDuplicateIds"),
        str(tmp_path / "clean"),
        input_filetype=kind,
        id_generator_path=str(tmp_path / "out/fuzzy_id_generator.json"),
        **read,
    ).run(quiet())
    assert ids(tmp_path / "clean") == KEPT_FUZZY
    assert result.get_metadata("num_duplicates_removed") == 8


def test_removal_from_other_data_is_rejected(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    exact(tmp_path, perform_removal=False).run(quiet())
    write_jsonl(tmp_path / "in/c.jsonl", [{"id": "new", "text": "new"}])
    with pytest.raises(InputError, match=r"c\.jsonl: not among the 3 files that were searched for duplicates"):
        removal(tmp_path, "ExactDuplicateIds", id_generator_path=str(tmp_path / "out/exact_id_generator.json")).run(
            quiet()
        )


def removal(folder: Path, ids_folder: str, **settings: Any) -> TextDuplicatesRemovalWorkflow:
    given = {"input_filetype": "jsonl", **settings}
    return TextDuplicatesRemovalWorkflow(
        str(folder / "in"), str(folder / "out" / ids_folder), str(folder / "clean"), **given
    )


@pytest.mark.parametrize("numbers", [True, False])
def test_removal_by_a_column_of_ids(tmp_path: Path, numbers: bool) -> None:
    names: list[Any] = [*range(8, 13)] if numbers else ["08", "9", "10", "11", "x"]
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": name, "text": "x"} for name in names])
    write_parquet(tmp_path / "out/gone/a.parquet", [{"id": names[1]}, {"id": names[3]}])
    write_parquet(tmp_path / "out/gone/b.parquet", [{"id": names[1]}])
    removal(tmp_path, "gone", id_field="id").run(quiet())
    assert ids(tmp_path / "clean") == sorted([names[0], names[2], names[4]])


def test_removal_by_ids_some_of_which_are_numbers(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": name, "text": "x"} for name in ("08", 9, "10", "x", None)])
    write_parquet(tmp_path / "out/gone/a.parquet", [{"id": "9"}, {"id": "10"}])
    removal(tmp_path, "gone", id_field="id").run(quiet())
    assert [document["id"] for document in read_documents(tmp_path / "clean")] == ["08", "x", None]


def test_removal_accepts_the_compatible_parameters(tmp_path: Path) -> None:
    for file in range(3):
        write_jsonl(tmp_path / f"in/{file}.jsonl", [{"id": f"{file}{n}", "text": str(n)} for n in range(3)])
    write_parquet(
        tmp_path / "out/gone/a.parquet", [{"id": "01", "why": 1}, {"id": "12", "why": 1}, {"id": "02", "why": 2}]
    )
    removal(
        tmp_path,
        "gone",
        id_field="id",
        drop_id_field=True,
        input_task_limit=2,
        duplicate_id_read_kwargs={"columns": ["id"], "filters": [("why", "=", 1)]},
    ).run(quiet())
    lines = [line for path in sorted((tmp_path / "clean").glob("*.jsonl")) for line in path.read_text().splitlines()]
    assert sorted(lines) == ['{"text":"0"}', '{"text":"0"}', '{"text":"1"}', '{"text":"2"}']
    with pytest.raises(ValueError, match="output_fields has 'id'"):
        removal(tmp_path, "gone", id_field="id", drop_id_field=True, output_fields=["id"])


def test_removal_by_ids_of_another_type_or_column_is_rejected(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": "00123", "text": "x"}])
    write_parquet(tmp_path / "out/gone/a.parquet", [{"id": 123}])
    with pytest.raises(PenstockError, match="column 'id' holds large_string, the list of ids to remove int64"):
        removal(tmp_path, "gone", id_field="id").run(quiet())
    with pytest.raises(InputError, match="no column 'doc' with ids to remove; it has id"):
        removal(tmp_path, "gone", id_field="id", duplicate_id_field="doc").run(quiet())
