"""Output files: content, names, and what happens to existing files."""

import errno
import json
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, ProcessingStage, Task
from penstock.errors import InputError, MissingColumnError, OutputError, PlanError, StageError
from penstock.testing import make_batch
from penstock.text import JsonlReader, JsonlWriter, ParquetReader, ParquetWriter, ScoreFilter, WordCountFilter
from penstock.text.io.writer import DocumentWriter


def run(*stages: ProcessingStage[Any, Any], initial: list[Task[Any]] | None = None) -> list[Task[Any]]:
    return Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False), initial)


def data_files(folder: Path) -> list[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != "_penstock")


def make_input(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    return folder


@pytest.mark.parametrize("writer", [JsonlWriter, ParquetWriter])
@pytest.mark.parametrize("mode", ["ignore", "overwrite", "error"])
def test_constructing_a_writer_touches_no_file(tmp_path: Path, writer: type[DocumentWriter], mode: str) -> None:
    (tmp_path / "old.jsonl").write_text("old")
    (tmp_path / "old.parquet").write_text("old")
    writer(tmp_path, mode=mode)
    writer(tmp_path / "new", mode=mode)
    assert data_files(tmp_path) == ["old.jsonl", "old.parquet"]


def test_mode_ignore_writes_next_to_existing_files(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text("old")
    run(JsonlWriter(tmp_path), initial=[make_batch(["a"])])
    assert (tmp_path / "old.jsonl").read_text() == "old"
    assert len(data_files(tmp_path)) == 2


def test_mode_overwrite_removes_files_of_this_format_only(tmp_path: Path) -> None:
    for name in ("old.jsonl", "notes.txt", "old.parquet"):
        (tmp_path / name).write_text("old")
    [written] = run(JsonlWriter(tmp_path, mode="overwrite"), initial=[make_batch(["a"])])
    assert data_files(tmp_path) == sorted(["notes.txt", "old.parquet", Path(written.data[0]).name])


def test_mode_error_refuses_a_folder_with_files_and_accepts_an_empty_one(tmp_path: Path) -> None:
    run(JsonlWriter(tmp_path, mode="error"), initial=[make_batch(["a"])])
    [name] = data_files(tmp_path)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(PlanError) as caught:
        run(JsonlWriter(tmp_path, mode="error"), initial=[make_batch(["b"])])
    message = str(caught.value)
    assert f"{tmp_path}: already contains 1 file, such as {tmp_path / name}." in message
    assert "mode=overwrite to replace it" in message
    assert (tmp_path / name).read_bytes() == before


def test_a_mode_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode='append'; it is one of ignore, overwrite, error"):
        JsonlWriter(tmp_path, mode="append")
    with pytest.raises(ValueError, match="write_kwargs has no 'indent'"):
        JsonlWriter(tmp_path, write_kwargs={"indent": 2})


def test_nothing_is_removed_when_the_plan_is_bad(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old.jsonl").write_text("old")
    with pytest.raises(PlanError):
        run(JsonlReader(tmp_path / "gone"), JsonlWriter(tmp_path / "out", mode="overwrite"))
    assert (tmp_path / "out/old.jsonl").read_text() == "old"


@pytest.mark.parametrize(
    ("source", "output"),
    [("data", "data"), ("data/*.jsonl", "data"), ("data/a.jsonl", "data"), ("data", "."), ("data/../data", "data")],
)
def test_the_input_is_never_overwritten(tmp_path: Path, source: str, output: str) -> None:
    make_input(tmp_path / "data", a="precious")
    with pytest.raises(PlanError, match="a folder of its own"):
        run(JsonlReader(f"{tmp_path}/{source}"), JsonlWriter(f"{tmp_path}/{output}", mode="overwrite"))
    assert json.loads((tmp_path / "data/a.jsonl").read_text()) == {"text": "precious"}


def test_a_relative_and_an_absolute_path_may_be_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_input(tmp_path / "data", a="precious")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlanError, match="a folder of its own"):
        run(JsonlReader("data"), JsonlWriter(tmp_path / "data", mode="overwrite"))
    assert json.loads((tmp_path / "data/a.jsonl").read_text()) == {"text": "precious"}


# What is made in the folder (a link, and what it leads to), the input, and the output.
LINKS = {
    "the output is above a link to the input": ({"link": "data"}, "data/crawl", "link/crawl"),
    "the input is behind a link": ({"link": "data/crawl"}, "link", "data/crawl"),
    "the output does not exist yet, a folder above it is a link": ({"link": "data/crawl"}, "data/crawl", "link/a/b"),
    "the input is a pattern behind a link": ({"link": "data"}, "link/*/*.jsonl", "data/crawl"),
    "the output goes up from a link": ({"link": "data/crawl"}, "data", "link/../crawl/clean"),
    "a file of the input is a link into the output": ({"data/crawl/b.jsonl": "clean/b.jsonl"}, "data/crawl", "clean"),
    "the output is written as a URL": ({"link": "data"}, "data/crawl", "file://{folder}/link/crawl"),
}


@pytest.mark.parametrize("case", LINKS)
def test_the_input_is_never_overwritten_through_a_link(tmp_path: Path, case: str) -> None:
    made, source, output = LINKS[case]
    make_input(tmp_path / "data/crawl", a="precious")
    make_input(tmp_path / "clean", b="precious too")
    for link, target in made.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    output = output.format(folder=tmp_path) if "://" in output else f"{tmp_path}/{output}"
    with pytest.raises(PlanError, match="a folder of its own"):
        run(JsonlReader(f"{tmp_path}/{source}"), JsonlWriter(output, mode="overwrite"))
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert json.loads((tmp_path / "data/crawl/a.jsonl").read_text()) == {"text": "precious"}
    assert json.loads((tmp_path / "clean/b.jsonl").read_text()) == {"text": "precious too"}


def test_folders_that_only_share_a_link_are_different(tmp_path: Path) -> None:
    make_input(tmp_path / "disk/crawl", a="x")
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    run(JsonlReader(tmp_path / "link/crawl"), JsonlWriter(tmp_path / "link/crawl-clean", mode="overwrite"))
    assert len(data_files(tmp_path / "disk/crawl-clean")) == 1


@pytest.mark.parametrize("run_dir", ["data", "data/runs", "link"])
def test_a_run_folder_inside_the_input_is_refused(tmp_path: Path, run_dir: str) -> None:
    make_input(tmp_path / "data", summary="precious")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    executor = InlineExecutor(show_progress=False, run_dir=str(tmp_path / run_dir))
    with pytest.raises(PlanError, match="overlaps with the run folder"):
        Pipeline("p", stages=[JsonlReader(tmp_path / "data")]).run(executor)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["summary.jsonl"]


def test_the_dead_letters_of_a_run_are_not_removed_by_a_run_that_reads_them(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_text('{"text": "x"}\nbroken\n')
    executor = InlineExecutor(show_progress=False, run_dir=str(tmp_path / "run"))
    Pipeline("p", stages=[JsonlReader(tmp_path / "in")]).run(executor)
    letters = tmp_path / "run/dead_letters.jsonl"
    with pytest.raises(PlanError, match="set another run_dir"):
        Pipeline("p", stages=[JsonlReader(letters)]).run(executor)
    assert "broken" in letters.read_text()


def texts_in(folder: Path) -> list[str]:
    lines = [line for name in data_files(folder) for line in (folder / name).read_text().splitlines()]
    return sorted(json.loads(line)["text"] for line in lines)


def test_mode_ignore_keeps_files_of_another_input_with_the_same_names(tmp_path: Path) -> None:
    for day in ("day1", "day2", "day3"):
        make_input(tmp_path / day / "crawl", a=f"{day} a", b=f"{day} b")
    run(JsonlReader(tmp_path / "day1/crawl"), JsonlWriter(tmp_path / "out"))
    first = {name: (tmp_path / "out" / name).read_bytes() for name in data_files(tmp_path / "out")}
    for day in ("day2", "day3"):
        run(JsonlReader(tmp_path / day / "crawl"), JsonlWriter(tmp_path / "out"))
    assert texts_in(tmp_path / "out") == sorted(f"day{day} {name}" for day in (1, 2, 3) for name in "ab")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in first} == first
    # The same input again, under whatever name, replaces what it wrote itself and nothing else.
    names = data_files(tmp_path / "out")
    (tmp_path / "latest").symlink_to(tmp_path / "day2")
    for day in ("day2", "latest", "day1"):
        run(JsonlReader(tmp_path / day / "crawl"), JsonlWriter(tmp_path / "out"))
    assert data_files(tmp_path / "out") == names
    run(JsonlReader([tmp_path / "day1/crawl", tmp_path / "day2/crawl"]), JsonlWriter(tmp_path / "out"))
    assert {"day1 a", "day2 a", "day3 b"} < set(texts_in(tmp_path / "out"))


@pytest.mark.parametrize("mode", ["overwrite", "error"])
def test_after_a_fresh_run_names_depend_on_the_input_alone(tmp_path: Path, mode: str) -> None:
    make_input(tmp_path / "day1/crawl", a="old")
    make_input(tmp_path / "day2/crawl", a="new")
    run(JsonlReader(tmp_path / "day2/crawl"), JsonlWriter(tmp_path / "fresh"))
    run(JsonlReader(tmp_path / "day1/crawl"), JsonlWriter(tmp_path / "out"))
    if mode == "error":
        for name in data_files(tmp_path / "out"):
            (tmp_path / "out" / name).unlink()
    run(JsonlReader(tmp_path / "day2/crawl"), JsonlWriter(tmp_path / "out", mode=mode))
    assert data_files(tmp_path / "out") == data_files(tmp_path / "fresh")
    run(JsonlReader(tmp_path / "day1/crawl"), JsonlWriter(tmp_path / "out"))
    assert texts_in(tmp_path / "out") == ["new", "old"]


def test_mode_ignore_refuses_files_of_unknown_input(tmp_path: Path) -> None:
    run(JsonlWriter(tmp_path), initial=[make_batch(["a"])])
    (tmp_path / "_penstock/origins.json").unlink()
    with pytest.raises(PlanError, match=r"origins\.json, which says of which input they were made, is missing"):
        run(JsonlWriter(tmp_path), initial=[make_batch(["b"])])
    assert texts_in(tmp_path) == ["a"]
    run(JsonlWriter(tmp_path, mode="overwrite"), initial=[make_batch(["b"])])
    assert texts_in(tmp_path) == ["b"]


def test_mode_ignore_keeps_files_of_other_batches(tmp_path: Path) -> None:
    for text in ("a", "b", "a"):
        run(JsonlWriter(tmp_path), initial=[make_batch([text])])
    assert texts_in(tmp_path) == ["a", "b"]


def test_a_run_next_to_another_inputs_files_resumes_with_its_own_names(tmp_path: Path) -> None:
    make_input(tmp_path / "day1/crawl", a="day1 a", b="day1 b")
    make_input(tmp_path / "day2/crawl", a="day2 a", b="poison")

    class Fails(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> DocumentBatch:
            if (tmp_path / "armed").exists() and "poison" in task.to_pyarrow()["text"].to_pylist():
                raise RuntimeError("blown")
            return task

    def curate(day: str, output: str, checkpoint: str) -> None:
        stages: list[ProcessingStage[Any, Any]] = [
            JsonlReader(tmp_path / day / "crawl"),
            Fails(),
            JsonlWriter(tmp_path / output),
        ]
        Pipeline("p", stages=stages).run(InlineExecutor(show_progress=False), checkpoint_path=tmp_path / checkpoint)

    for day in ("day1", "day2"):
        curate(day, "whole", f"whole {day}")
    curate("day1", "out", "day1")
    (tmp_path / "armed").touch()
    with pytest.raises(StageError, match="blown"):
        curate("day2", "out", "day2")
    (tmp_path / "armed").unlink()
    curate("day2", "out", "day2")
    assert texts_in(tmp_path / "out") == ["day1 a", "day1 b", "day2 a", "poison"]
    for name in data_files(tmp_path / "whole"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(PlanError, match=r"is a file\. The writer needs a folder"):
        run(JsonlWriter(tmp_path / "out"), initial=[make_batch(["a"])])


def test_a_batch_without_documents_writes_no_file(tmp_path: Path) -> None:
    # The incumbent writes an empty file here, which its own reader refuses.
    source = make_input(tmp_path / "in", long="one two three", short="one")
    for writer, reader in ((JsonlWriter, JsonlReader), (ParquetWriter, ParquetReader)):
        output = tmp_path / writer.name
        results = run(JsonlReader(source), ScoreFilter(WordCountFilter(min_words=2)), writer(output))
        assert len(results) == len(data_files(output)) == 1
        assert [task.num_items for task in run(reader(output))] == [1]


def test_a_file_from_an_earlier_run_that_would_be_empty_now_is_removed(tmp_path: Path) -> None:
    source = make_input(tmp_path / "in", a="one two three", b="one two")
    run(JsonlReader(source), ScoreFilter(WordCountFilter(min_words=2)), JsonlWriter(tmp_path / "out"))
    assert len(data_files(tmp_path / "out")) == 2
    [left] = run(JsonlReader(source), ScoreFilter(WordCountFilter(min_words=3)), JsonlWriter(tmp_path / "out"))
    assert data_files(tmp_path / "out") == [Path(left.data[0]).name]


def test_names_depend_on_the_input_not_on_its_location(tmp_path: Path) -> None:
    make_input(tmp_path / "here/in", a="x", b="y")
    run(JsonlReader(tmp_path / "here/in"), JsonlWriter(tmp_path / "one"))
    run(JsonlReader(tmp_path / "here/in"), JsonlWriter(tmp_path / "two"))
    (tmp_path / "there").mkdir()
    (tmp_path / "here/in").rename(tmp_path / "there/in")
    (tmp_path / "there/in/0.jsonl").write_text('{"text": "new"}\n')
    run(JsonlReader(tmp_path / "there/in"), JsonlWriter(tmp_path / "three"))
    first = {name: (tmp_path / "one" / name).read_bytes() for name in data_files(tmp_path / "one")}
    third = {name: (tmp_path / "three" / name).read_bytes() for name in data_files(tmp_path / "three")}
    assert data_files(tmp_path / "two") == sorted(first)
    assert len(first) == 2
    assert first.items() <= third.items(), "neither moving the data nor a new file renames anything"
    assert len(third) == 3


def test_files_of_one_name_in_two_folders_are_two_files(tmp_path: Path) -> None:
    make_input(tmp_path / "p/in", a="x")
    make_input(tmp_path / "q/in", a="y")
    run(JsonlReader([tmp_path / "p/in", tmp_path / "q/in"]), JsonlWriter(tmp_path / "out"))
    written = [(tmp_path / "out" / name).read_text() for name in data_files(tmp_path / "out")]
    assert sorted(written) == ['{"text": "x"}\n', '{"text": "y"}\n']


def test_a_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    class Failing(JsonlWriter):
        def write_documents(self, task: DocumentBatch, stream: Any) -> None:
            stream.write(b'{"text"')
            raise RuntimeError("boom")

    with pytest.raises(StageError, match="stage 'jsonl_writer': process failed on task 0_0: RuntimeError: boom"):
        run(Failing(tmp_path / "out"), initial=[make_batch(["a"])])
    assert data_files(tmp_path / "out") == []


def test_only_the_requested_fields_are_written(tmp_path: Path) -> None:
    [written] = run(JsonlWriter(tmp_path, fields=["text"]), initial=[make_batch(["a"])])
    assert Path(written.data[0]).read_text() == '{"text":"a"}\n'
    assert written._metadata["format"] == "jsonl"
    with pytest.raises((MissingColumnError, PlanError), match="'url'"):
        run(JsonlWriter(tmp_path, fields=["url"]), initial=[make_batch(["a"])])


def test_the_file_extension_can_be_set(tmp_path: Path) -> None:
    [written] = run(JsonlWriter(tmp_path, file_extension=".json"), initial=[make_batch(["a"])])
    assert Path(written.data[0]).suffix == ".json"


def test_a_url_is_written_like_a_folder() -> None:
    store = fsspec.filesystem("memory")
    try:
        [written] = run(JsonlWriter("memory://bucket/out"), initial=[make_batch(["a"])])
        [batch] = run(JsonlReader("memory://bucket/out"))
        assert isinstance(batch, DocumentBatch)
        assert batch.to_pyarrow()["text"].to_pylist() == ["a"]
        assert written.data[0].startswith("memory://bucket/out/")
        with pytest.raises(PlanError, match="already contains 1 file"):
            run(JsonlWriter("memory://bucket/out", mode="error"), initial=[make_batch(["a"])])
    finally:
        store.store.clear()
        store.pseudo_dirs[:] = [""]


def test_a_url_of_an_unknown_scheme_is_named_in_the_error() -> None:
    with pytest.raises(
        (InputError, OutputError, PlanError), match="nonsense://x: this kind of address cannot be opened"
    ):
        run(JsonlWriter("nonsense://x"), initial=[make_batch(["a"])])


@pytest.mark.parametrize(
    ("options", "ending"),
    [
        ({"compression": "gzip"}, ".jsonl.gz"),
        ({"compression": "zstd"}, ".jsonl.zst"),
        ({"compression": "bz2"}, ".jsonl.bz2"),
        ({"file_extension": ".json.xz"}, ".json.xz"),
        ({"file_extension": "jsonl.gz", "compression": "gzip"}, ".jsonl.gz"),
    ],
)
def test_compressed_output_has_its_extension_and_can_be_read(tmp_path: Path, options: Any, ending: str) -> None:
    source = make_input(tmp_path / "in", a="x" * 1000)
    names = []
    for folder in ("one", "two"):
        [written] = run(JsonlReader(source), JsonlWriter(tmp_path / folder, **options))
        names.append(Path(written.data[0]))
    assert names[0].name.endswith(ending)
    assert names[0].stat().st_size < 500
    assert names[0].read_bytes() == names[1].read_bytes(), "no time of day in it"
    [batch] = run(JsonlReader(tmp_path / "one"))
    assert isinstance(batch, DocumentBatch)
    assert batch.column("text").to_pylist() == ["x" * 1000]


def test_a_compression_that_does_not_exist_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"compression='gzap'; it is one of gzip, bz2, xz, zstd\. Did you mean 'gzip'\?"
    ):
        JsonlWriter("out", compression="gzap")


@pytest.mark.parametrize(("writer", "reader"), [(JsonlWriter, JsonlReader), (ParquetWriter, ParquetReader)])
def test_a_large_batch_is_written_as_several_files(tmp_path: Path, writer: Any, reader: Any) -> None:
    lines = [json.dumps({"id": number, "text": "word " * 100}) for number in range(100)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    source = JsonlReader(tmp_path / "in.jsonl")
    [written] = run(source, writer(tmp_path / "out", target_file_size="10kB"))
    assert len(written.data) > 4
    assert sorted(written.data) == [str(tmp_path / "out" / name) for name in data_files(tmp_path / "out")]
    batches = run(reader(sorted(written.data)))
    numbers = [number for batch in batches for number in batch.to_pyarrow()["id"].to_pylist()]  # type: ignore[attr-defined]
    assert sorted(numbers) == list(range(100))
    assert all(task.num_bytes < 11_000 for task in batches)
    # A run with fewer documents removes the extra files of the earlier run.
    [again] = run(source, ScoreFilter(WordCountFilter(min_words=3)), writer(tmp_path / "out", target_file_size="1MB"))
    assert data_files(tmp_path / "out") == [Path(again.data[0]).name]
    assert (
        run(source, ScoreFilter(WordCountFilter(min_words=300)), writer(tmp_path / "out", target_file_size="10kB"))
        == []
    )
    assert data_files(tmp_path / "out") == []


def test_the_index_of_a_frame_is_never_written(tmp_path: Path) -> None:
    # The incumbent writes a column __index_level_0__ when a batch was filtered in pandas.
    frame = make_batch(["a", "b", "c"]).to_pandas()
    batch = DocumentBatch("d", frame[frame["text"] != "b"])
    [written] = run(ParquetWriter(tmp_path / "out"), initial=[batch])
    assert pq.read_table(written.data[0]).column_names == ["id", "text"]
    assert pq.read_schema(written.data[0]).metadata is None


def test_a_full_disk_is_named_with_the_file_that_did_not_fit(tmp_path: Path) -> None:
    class OnAFullDisk(JsonlWriter):
        def write_documents(self, task: DocumentBatch, stream: Any) -> None:
            stream.write(b'{"text"')
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OutputError, match=f"{tmp_path}/out/.*jsonl: the disk is full"):
        run(OnAFullDisk(tmp_path / "out"), initial=[make_batch(["a"])])
    assert data_files(tmp_path / "out") == []
