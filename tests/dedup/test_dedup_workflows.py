"""Deduplication as a user runs it: files in, files out, whatever the format, the blocks or the number of workers."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpora import contents, edited, essay, ids, quiet, read_documents, removed_rows, twins, write_jsonl, write_parquet

from penstock import FileGroupTask, StreamingExecutor
from penstock.dedup import ExactDeduplicationWorkflow, FuzzyDeduplicationWorkflow, TextDuplicatesRemovalWorkflow
from penstock.dedup.places import ID_FIELD
from penstock.errors import InputError, PenstockError
from penstock.ledger.reading import find_ledger
from penstock.ledger.receipts import find_document, receipt_of

Write = Callable[[Path, Any], None]
FORMATS = pytest.mark.parametrize(("kind", "write"), [("jsonl", write_jsonl), ("parquet", write_parquet)])

# Originals 0 to 9; of the first five there is a copy, of 5 to 7 one with a word changed, of 8 one with half of them.
ORIGINALS = [{"id": f"o{n}", "text": essay(n), "date": "2020-01-01", "score": n} for n in range(10)]
COPIES = [{"id": f"c{n}", "text": essay(n), "date": "00123", "score": n + 100} for n in range(5)]
EDITED = [
    {"id": f"e{n}", "text": edited(essay(n), n, 60 if n == 8 else 1), "date": "1.10", "score": n} for n in range(5, 9)
]


def write_corpus(folder: Path, kind: str = "jsonl", write: Write = write_jsonl) -> Path:
    write(folder / f"in/a/part.{kind}", ORIGINALS)
    write(folder / f"in/b/part.{kind}", COPIES)
    write(folder / f"in/b/more.{kind}", EDITED)
    return folder / "in"


def exact(folder: Path, output: str = "out", **settings: Any) -> ExactDeduplicationWorkflow:
    given = {"input_path": str(folder / "in"), "input_filetype": "jsonl", "perform_removal": True, **settings}
    return ExactDeduplicationWorkflow(str(folder / output), show_progress=False, **given)


def fuzzy(folder: Path, output: str = "out", **settings: Any) -> FuzzyDeduplicationWorkflow:
    given: dict[str, Any] = {"input_path": str(folder / "in"), "input_filetype": "jsonl", "perform_removal": True}
    given |= {"show_progress": False, **settings}
    return FuzzyDeduplicationWorkflow(str(folder / "cache"), str(folder / output), **given)


KEPT_EXACT = sorted(["e5", "e6", "e7", "e8", *(f"o{n}" for n in range(10))])
KEPT_FUZZY = sorted(["e8", *(f"o{n}" for n in range(10))])


@FORMATS
def test_exact_keeps_the_first_of_equal_texts_and_all_else_as_it_was(tmp_path: Path, kind: str, write: Write) -> None:
    write_corpus(tmp_path, kind, write)
    result = exact(tmp_path, input_filetype=kind).run(quiet())
    assert result.get_metadata("num_duplicates") == 5
    kept = read_documents(tmp_path / "out/deduplicated")
    assert sorted(document["id"] for document in kept) == KEPT_EXACT
    originals = {document["id"]: document for document in [*ORIGINALS, *EDITED]}
    assert all(document == originals[document["id"]] for document in kept)
    assert twins(tmp_path / "out", "Exact") == {f"c{n}": (f"o{n}", 1.0) for n in range(5)}


@FORMATS
def test_fuzzy_removes_what_is_nearly_the_same_and_names_twin_and_similarity(
    tmp_path: Path, kind: str, write: Write
) -> None:
    write_corpus(tmp_path, kind, write)
    result = fuzzy(tmp_path, input_filetype=kind).run(quiet())
    assert result.get_metadata("num_duplicates") == 8
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY
    found = twins(tmp_path / "out")
    assert {name: twin for name, (twin, _) in found.items()} == {
        **{f"c{n}": f"o{n}" for n in range(5)},
        **{f"e{n}": f"o{n}" for n in range(5, 8)},
    }
    for number in range(5, 8):
        one, other = essay(number), edited(essay(number), number)
        a, b = ({text[i : i + 24] for i in range(len(text) - 23)} for text in (one, other))
        assert found[f"e{number}"][1] == len(a & b) / len(a | b)
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").iterdir())


def test_lines_that_stay_are_copied_byte_for_byte(tmp_path: Path) -> None:
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
def test_the_result_is_the_same_to_the_bit_whatever_runs_it(tmp_path: Path, make: Callable[..., Any]) -> None:
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
def test_the_result_is_the_same_to_the_bit_on_a_cluster(tmp_path: Path, make: Callable[..., Any]) -> None:
    write_corpus(tmp_path)
    make(tmp_path, "one", input_blocksize="3KB").run(quiet())
    make(tmp_path, "two", input_blocksize="3KB").run(StreamingExecutor(show_progress=False, backend="ray"))
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


@FORMATS
@pytest.mark.parametrize("make", [exact, fuzzy])
def test_the_same_documents_go_whatever_the_blocks(
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
def test_rounds_widths_and_shingles_change_nothing_about_what_is_plainly_a_duplicate(
    tmp_path: Path, settings: dict[str, Any], use_64_bit_hash: bool
) -> None:
    write_corpus(tmp_path)
    fuzzy(tmp_path, use_64_bit_hash=use_64_bit_hash, **settings).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY


def test_documents_too_short_for_a_shingle_are_compared_as_a_whole(tmp_path: Path) -> None:
    short = [("1", "short"), ("2", "short!"), ("3", "short"), ("4", ""), ("5", None), ("6", "  ")]
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": name, "text": text} for name, text in short])
    fuzzy(tmp_path, max_removed_share=1.0).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == ["1", "2", "4", "6"]


def test_normalised_texts_are_equal_and_come_out_as_they_were(tmp_path: Path) -> None:
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
def test_the_policy_says_which_one_stays(tmp_path: Path, make: Any, keep: Any, stays: list[str]) -> None:
    """Documents 1 are the same text; documents 2 nearly, the second longer. Exact looks at white space too."""
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


def test_ids_that_are_not_unique_and_files_of_one_name_are_no_trouble(tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        same, own = {"id": 7, "text": essay(1)}, {"id": 7, "text": essay(ord(folder))}
        write_jsonl(tmp_path / f"in/{folder}/part.jsonl", [same, own])
    paths = [str(tmp_path / f"in/{folder}/part.jsonl") for folder in ("a", "b", "c")]
    for output, given in (("folder", str(tmp_path / "in")), ("files", paths)):
        fuzzy(tmp_path, output, input_path=given).run(quiet())
        kept = read_documents(tmp_path / output / "deduplicated")
        assert sorted(document["text"] for document in kept) == sorted(essay(n) for n in (1, *map(ord, "abc")))


def test_tasks_that_name_files_serve_in_place_of_a_path(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    tasks = [FileGroupTask("d", [str(path)]) for path in sorted((tmp_path / "in").rglob("*.jsonl"))]
    exact(tmp_path, input_path=None).run(executor=quiet(), initial_tasks=tasks)
    assert ids(tmp_path / "out/deduplicated") == KEPT_EXACT
    with pytest.raises(ValueError, match="input_path is missing"):
        exact(tmp_path, input_path=None).run(quiet())


@pytest.mark.parametrize("make", [exact, fuzzy])
def test_nothing_to_read_is_nothing_removed(tmp_path: Path, make: Callable[..., Any]) -> None:
    write_jsonl(tmp_path / "in/a.jsonl", [])
    assert make(tmp_path).run(quiet()).get_metadata("num_duplicates") == 0


def test_a_second_run_replaces_what_the_first_one_wrote(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    fuzzy(tmp_path, similarity_threshold=1.0).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == KEPT_EXACT
    fuzzy(tmp_path, input_blocksize="2KB").run(quiet())
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY


def test_a_line_that_cannot_be_read_is_set_aside_and_said_once(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    with (tmp_path / "in/a/part.jsonl").open("a") as file:
        file.write("{broken\n")
    fuzzy(tmp_path).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY
    letters = (tmp_path / "out/deduplicated/_penstock/dead_letters.jsonl").read_text().splitlines()
    assert [json.loads(letter)["position"] for letter in letters] == [11]


def test_small_files_are_looked_at_together_and_written_one_by_one(tmp_path: Path) -> None:
    for number, document in enumerate([*ORIGINALS, *COPIES, *EDITED]):
        write_jsonl(tmp_path / f"in/{number:02d}.jsonl", [document])
    executor = quiet()
    fuzzy(tmp_path).run(executor)
    assert executor.last_summary is not None
    tasks = {counters.stage: counters.tasks for counters in executor.last_summary.counters}
    assert (tasks["sign_texts"], tasks["gather_texts"], tasks["remove_duplicates"]) == (1, 1, 19)
    assert ids(tmp_path / "out/deduplicated") == KEPT_FUZZY
    assert len(list((tmp_path / "out/deduplicated").glob("*.jsonl"))) == len(KEPT_FUZZY)


def test_a_value_that_is_no_text_changes_nothing_about_the_texts_read_with_it(tmp_path: Path) -> None:
    odd: list[dict[str, Any]] = [
        {"id": "n1", "text": 5},
        {"id": "n2", "text": ["a", "list"]},
        {"id": "n3", "text": 5},
        {"id": "n4"},
    ]
    write_jsonl(tmp_path / "in/a.jsonl", [*ORIGINALS, *odd])
    write_jsonl(tmp_path / "in/b.jsonl", [*COPIES, *EDITED, {"id": "n5", "text": ""}])
    tables = []
    for output, blocksize in (("alone", 100), ("one", "1KB"), ("together", "1MB")):
        fuzzy(tmp_path, output, input_blocksize=blocksize).run(quiet())
        tables.append(contents(tmp_path / output, ["*DuplicateIds/*"]))
        assert ids(tmp_path / output / "deduplicated") == sorted([*KEPT_FUZZY, "n1", "n2", "n4"])
    assert tables[0] == tables[1] == tables[2]


@pytest.mark.parametrize("removal", [True, False])
def test_output_inside_the_input_is_refused_before_anything_is_written(tmp_path: Path, removal: bool) -> None:
    write_corpus(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=r"lie one within the other\. Give the output a folder of its own"):
        exact(tmp_path, "in/unique", perform_removal=removal).run(quiet())
    assert sorted(tmp_path.rglob("*")) == before


@FORMATS
def test_a_column_that_no_file_has_is_named_before_anything_is_written(tmp_path: Path, kind: str, write: Write) -> None:
    write_corpus(tmp_path, kind, write)
    with pytest.raises(InputError, match=r"column 'txt' is missing; .* Set text_field='text' if that is the one"):
        fuzzy(tmp_path, input_filetype=kind, text_field="txt").run(quiet())
    assert not (tmp_path / "out").exists()


def test_an_archive_that_is_none_costs_nobody_else_anything(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    (tmp_path / "in/a/0.jsonl.gz").write_bytes(bytes(range(256)))
    with pytest.raises(PenstockError, match=r"^1 of the input could not be processed[^$]*0\.jsonl\.gz: cannot be read"):
        exact(tmp_path).run(StreamingExecutor(show_progress=False, cpus=2))
    assert ids(tmp_path / "out/deduplicated") == KEPT_EXACT


def test_a_column_that_holds_no_texts_at_all_is_named(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in/a.parquet", [{"text": ["a", "list"]}])
    with pytest.raises(InputError, match=r"column 'text' holds list.*, not text"):
        exact(tmp_path, input_filetype="parquet").run(quiet())


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
def test_what_makes_no_sense_is_refused_before_anything_is_read(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fuzzy(tmp_path, **settings)


def test_a_number_of_partitions_that_does_not_fit_is_refused_with_the_arithmetic(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": n, "text": "x"} for n in range(10_000)])
    with pytest.raises(InputError, match=r"total_nparts=1 does not fit: .* documents x 32 bytes"):
        exact(tmp_path, total_nparts=1, memory_budget="100KB").run(quiet())
    with pytest.raises(InputError, match="20 bands at a time in 2 partitions do not fit"):
        fuzzy(tmp_path, lsh_num_output_partitions=2, bands_per_iteration=20, memory_budget="1MB").run(quiet())


@pytest.mark.parametrize("workflow", [exact, fuzzy])
def test_a_damaged_file_is_named_and_everything_else_is_done(tmp_path: Path, workflow: Callable[..., Any]) -> None:
    write_corpus(tmp_path, "parquet", write_parquet)
    whole = (tmp_path / "in/a/part.parquet").read_bytes()
    (tmp_path / "in/a/broken.parquet").write_bytes(whole[:-100])
    with pytest.raises(PenstockError, match=r"broken\.parquet: not a whole Parquet file"):
        workflow(tmp_path, input_filetype="parquet").run(StreamingExecutor(show_progress=False, cpus=2))
    assert len(read_documents(tmp_path / "out/deduplicated")) == len(KEPT_EXACT if workflow is exact else KEPT_FUZZY)


@pytest.mark.parametrize("workflow", [exact, fuzzy])
def test_a_damaged_file_among_others_read_with_it_leaves_their_ids_alone(
    tmp_path: Path, workflow: Callable[..., Any]
) -> None:
    write_corpus(tmp_path, "parquet", write_parquet)
    whole = (tmp_path / "in/a/part.parquet").read_bytes()
    (tmp_path / "in/a/broken.parquet").write_bytes(whole[:-100])
    tables = []
    for output, blocksize in (("alone", None), ("together", "64MB")):
        with pytest.raises(PenstockError, match=r"^1 of the input could not be processed"):
            workflow(tmp_path, output, input_filetype="parquet", input_blocksize=blocksize).run(
                StreamingExecutor(show_progress=False, cpus=2)
            )
        [table] = (tmp_path / output).glob("*DuplicateIds")
        tables.append(removed_rows(table))
        assert {row["file"] for row in tables[-1]} <= {"in/b/part.parquet", "in/b/more.parquet"}
    assert tables[0] == tables[1]
    ledger = find_ledger(str(tmp_path / "together/deduplicated"))
    [place] = find_document(ledger, "c3")
    receipt = receipt_of(ledger, place)
    assert receipt.duplicate_of is not None
    assert receipt.duplicate_of.id == "o3"
    assert receipt.files[0].endswith("in/b/part.parquet")


@FORMATS
def test_a_file_without_the_column_costs_those_read_with_it_nothing(tmp_path: Path, kind: str, write: Write) -> None:
    write_corpus(tmp_path, kind, write)
    write(tmp_path / f"in/b/other.{kind}", [{"id": "x", "body": "a text under another name"}])
    with pytest.raises(PenstockError, match=r"^1 of the input could not be processed[^$]*'text' is missing"):
        exact(tmp_path, input_filetype=kind).run(StreamingExecutor(show_progress=False, cpus=2))
    assert sorted(twins(tmp_path / "out", "Exact")) == [f"c{n}" for n in range(5)]


# -- removal as a step of its own ------------------------------------------------------------------------------


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


def test_removal_from_other_data_is_refused(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    exact(tmp_path, perform_removal=False).run(quiet())
    write_jsonl(tmp_path / "in/c.jsonl", [{"id": "new", "text": "new"}])
    with pytest.raises(InputError, match=r"c\.jsonl: not among the 3 files that duplicates were looked for in"):
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


def test_removal_takes_what_scripts_say(tmp_path: Path) -> None:
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


def test_removal_by_ids_of_another_type_or_column_is_refused(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": "00123", "text": "x"}])
    write_parquet(tmp_path / "out/gone/a.parquet", [{"id": 123}])
    with pytest.raises(PenstockError, match="column 'id' holds large_string, the list of ids to remove int64"):
        removal(tmp_path, "gone", id_field="id").run(quiet())
    with pytest.raises(InputError, match="no column 'doc' with ids to remove; it has id"):
        removal(tmp_path, "gone", id_field="id", duplicate_id_field="doc").run(quiet())


def test_the_table_of_removed_documents_can_be_read_by_people(tmp_path: Path) -> None:
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
def test_the_first_run_on_a_machine_says_why_it_takes_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiled: bool
) -> None:
    monkeypatch.setattr("penstock.dedup.fuzzy.is_warm", lambda: compiled)
    write_corpus(tmp_path)
    fuzzy(tmp_path, show_progress=True, device="cpu").run(quiet())
    said = capsys.readouterr().err
    assert "Fuzzy deduplication of" in said
    assert ("Compiling" in said) is not compiled
