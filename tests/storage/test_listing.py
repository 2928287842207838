"""Every file under a path is read or reported with the reason; files that could block are not opened."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from penstock.errors import InputError
from penstock.storage.filesystem import open_input, open_stored
from penstock.storage.formats import JSONL, PARQUET
from penstock.storage.listing import Listing, describe, list_files


def names(listing: Listing) -> list[str]:
    return [file.name for file in listing.files]


def reasons(listing: Listing) -> dict[str, str]:
    return {other.name: other.reason for other in listing.not_read}


def write(folder: Path, *files: str) -> Path:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(b"{}\n")
    return folder


def bind_socket(path: Path) -> None:
    # The path of a socket is limited in length, and the folders of tests have long paths.
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "named pipe": os.mkfifo,
    "socket": bind_socket,
    "device file": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize(
    "name",
    ["a.jsonl", "A.JSONL", "a.Jsonl.GZ", "a.jsonl.gzip", "a.ndjson", "a.NDJSON.bz2", "a.jsonlines.zstd", "a.jl.XZ",
     "a.json.gz", "a.jsonl.bzip2"],
)  # fmt: skip
def test_every_usual_json_lines_extension_is_read(tmp_path: Path, name: str) -> None:
    assert names(list_files(write(tmp_path / "in", name), JSONL)) == [f"in/{name}"]


@pytest.mark.parametrize("name", ["a.parquet", "a.PARQUET", "a.parq", "a.pq"])
def test_every_usual_parquet_extension_is_read(tmp_path: Path, name: str) -> None:
    assert names(list_files(write(tmp_path / "in", name), PARQUET)) == [f"in/{name}"]


def test_files_with_another_extension_are_reported(tmp_path: Path) -> None:
    files = ["a.jsonl", "b.jsonl.lz4", "c.TXT.gz", "d.parquet", "LICENSE", "sub/e.txt.gz", "_hidden.txt", ".x/f.txt"]
    listing = list_files(write(tmp_path / "in", *files), JSONL)
    assert names(listing) == ["in/a.jsonl"]
    assert reasons(listing) == {
        "in/LICENSE": "other ending no extension",
        "in/b.jsonl.lz4": "other ending .lz4",
        "in/c.TXT.gz": "other ending .txt.gz",
        "in/d.parquet": "other ending .parquet",
        "in/sub/e.txt.gz": "other ending .txt.gz",
    }
    assert describe(listing.notes()).startswith("Not read: 2, other ending .txt.gz (in/c.TXT.gz, in/sub/e.txt.gz); 1, ")


def test_linked_folders_are_read_once_and_circular_links_terminate(tmp_path: Path) -> None:
    crawl = write(tmp_path / "crawl", "a.jsonl", "sub/b.jsonl")
    write(tmp_path / "else", "deep/c.jsonl")
    (crawl / "elsewhere").symlink_to("../else")
    (crawl / "again").symlink_to(tmp_path / "else/deep")
    (crawl / "sub/self").symlink_to("..")
    (tmp_path / "else/deep/back").symlink_to("../../crawl/sub")
    for given in (crawl, f"{crawl}/**/*.jsonl", f"{crawl}/**"):
        listing = list_files(given, JSONL)
        assert names(listing) == ["crawl/a.jsonl", "crawl/again/c.jsonl", "crawl/sub/b.jsonl"]
        assert reasons(listing) == {
            "crawl/again/back": "folder that is read already by another path",
            "crawl/elsewhere/deep": "folder that is read already by another path",
            "crawl/sub/self": "folder that is read already by another path",
        }


def test_link_to_a_file_is_read_and_dangling_link_is_reported(tmp_path: Path) -> None:
    crawl = write(tmp_path / "crawl", "a.jsonl")
    blob = write(tmp_path, "blob").joinpath("blob")
    (crawl / "b.jsonl").symlink_to(blob)
    (crawl / "c.jsonl").symlink_to("gone")
    (crawl / "d.jsonl").symlink_to("d.jsonl")
    listing = list_files(crawl, JSONL)
    assert [(file.name, file.size) for file in listing.files] == [("crawl/a.jsonl", 3), ("crawl/b.jsonl", 3)]
    assert reasons(listing) == {
        "crawl/c.jsonl": "link to nothing",
        "crawl/d.jsonl": "not readable: Too many levels of symbolic links",
    }


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_file_is_reported_in_a_folder_and_rejected_as_a_path(tmp_path: Path, kind: str) -> None:
    crawl = write(tmp_path / "crawl", "a.jsonl")
    SPECIAL[kind](crawl / "x.jsonl")
    for given in (crawl, f"{crawl}/*.jsonl"):
        listing = list_files(given, JSONL)
        assert names(listing) == ["crawl/a.jsonl"]
        assert reasons(listing) == {"crawl/x.jsonl": kind}
    message = rf"x\.jsonl: it is a {kind}, not a regular file"
    for given in (crawl / "x.jsonl", f"{crawl}/x*.jsonl"):
        with pytest.raises(InputError, match=f"{message}|no file matches this pattern.*{kind}"):
            list_files(given, JSONL)
    for opened in (open_stored, open_input):
        with pytest.raises(InputError, match=message), opened(str(crawl / "x.jsonl")):
            pass


def test_folder_with_only_special_files_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    with pytest.raises(InputError, match=r"no file in it can be read\. Not read: 1, named pipe"):
        list_files(tmp_path, JSONL)


def test_pattern_reports_matching_folders_without_listing_them(tmp_path: Path) -> None:
    crawl = write(tmp_path / "crawl", "a.jsonl", "day.jsonl/b.jsonl")
    listing = list_files(f"{crawl}/*.jsonl", JSONL)
    assert (names(listing), reasons(listing)) == (["crawl/a.jsonl"], {"crawl/day.jsonl": "folder"})
    assert names(list_files(crawl, JSONL)) == ["crawl/a.jsonl", "crawl/day.jsonl/b.jsonl"]
    with pytest.raises(InputError, match=r"no file matches.*1, folder \(day\.jsonl\)\. To look into folders, "):
        list_files(f"{crawl}/day*", JSONL)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may list every folder")
def test_folder_without_list_permission_is_reported(tmp_path: Path) -> None:
    crawl = write(tmp_path / "crawl", "a.jsonl", "closed/b.jsonl")
    (crawl / "closed").chmod(0)
    try:
        assert reasons(list_files(crawl, JSONL)) == {"crawl/closed": "folder that this user may not list"}
    finally:
        (crawl / "closed").chmod(0o700)


def test_remote_store_is_listed_with_the_same_extensions() -> None:
    store = fsspec.filesystem("memory")
    for name in ("A.JSONL.GZ", "b.ndjson", "c.txt"):
        with store.open(f"/listed/{name}", "wb") as stream:
            stream.write(b"1")
    try:
        listing = list_files("memory://listed", JSONL)
        assert names(listing) == ["listed/A.JSONL.GZ", "listed/b.ndjson"]
        assert reasons(listing) == {"listed/c.txt": "other ending .txt"}
    finally:
        store.rm("/listed", recursive=True)


# In a separate process with a deadline: opening a named pipe would block forever.
@pytest.mark.parametrize(
    "command",
    [["curate", "crawl", "out"], ["preview", "crawl", "--recipe", "c4"], ["dedup", "exact", "crawl", "out"]],
    ids=lambda command: command[0],
)
def test_commands_report_skipped_files_and_do_not_hang(tmp_path: Path, command: list[str]) -> None:
    crawl = tmp_path / "crawl"
    crawl.mkdir()
    (crawl / "A.JSONL").write_text('{"id": "1", "text": "The mill at the river has been there for long."}\n')
    (crawl / "notes.txt").write_text("no documents")
    os.mkfifo(crawl / "x.jsonl")
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *command],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = "crawl: Not read: 1, named pipe (crawl/x.jsonl); 1, other ending .txt (crawl/notes.txt)."
    assert said in done.stderr
    if command[0] != "preview":  # also in the summary at the end, and in its file
        assert done.stderr.count(said.partition(": ")[2]) == 2
        [summary] = tmp_path.rglob("summary.json")
        assert "not read: named pipe (crawl/x.jsonl)" in summary.read_text()
