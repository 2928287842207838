"""Paths and URLs are listed the same way, and errors name the path and say what to do."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from penstock.core.files import SizedFile
from penstock.errors import InputError
from penstock.storage.filesystem import filesystem_of, is_local, open_input
from penstock.storage.listing import list_files

EXTENSIONS = (".jsonl", ".json")


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    folder = tmp_path / "crawl"
    names = [
        "b.jsonl",
        "a.jsonl",
        "c.json",
        "deep/er/d.jsonl",
        "e.jsonl.gz",
        "f.jsonl.zst",
        "notes.txt",
        "x.jsonl.part",
    ]
    hidden = [".hidden.jsonl", "_penstock/dead_letters.jsonl", ".cache/x.jsonl", "_SUCCESS"]
    for size, name in enumerate([*names, *hidden], start=1):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * size)
    return folder


@pytest.fixture
def memory() -> Iterator[None]:
    store = fsspec.filesystem("memory")
    yield
    store.store.clear()
    store.pseudo_dirs[:] = [""]


def names_below(folder: Path, files: list[SizedFile]) -> list[str]:
    return [str(Path(file.path).relative_to(folder)) for file in files]


def test_folder_lists_matching_files_sorted_without_hidden_files(crawl: Path) -> None:
    found = list_files(crawl, EXTENSIONS).files
    assert names_below(crawl, found) == ["a.jsonl", "b.jsonl", "c.json", "deep/er/d.jsonl", "e.jsonl.gz", "f.jsonl.zst"]
    assert [file.size for file in found] == [2, 1, 3, 4, 5, 6]
    assert [file.name for file in found[:4]] == [
        "crawl/a.jsonl",
        "crawl/b.jsonl",
        "crawl/c.json",
        "crawl/deep/er/d.jsonl",
    ]


def test_glob_lists_matching_files_without_hidden_files(crawl: Path) -> None:
    assert names_below(crawl, list_files(f"{crawl}/*.jsonl", EXTENSIONS).files) == ["a.jsonl", "b.jsonl"]
    found = list_files(f"{crawl}/**/*.jsonl", EXTENSIONS).files  # in particular not the dead letters of an earlier run
    assert names_below(crawl, found) == ["a.jsonl", "b.jsonl", "deep/er/d.jsonl"]


def test_explicitly_named_file_is_read_with_any_extension(crawl: Path) -> None:
    assert names_below(crawl, list_files(crawl / "notes.txt", EXTENSIONS).files) == ["notes.txt"]


def test_list_of_mixed_paths_lists_each_file_once(crawl: Path) -> None:
    paths: list[str | Path] = [crawl / "deep", str(crawl / "b.jsonl"), f"{crawl}/*.jsonl"]
    assert names_below(crawl, list_files(paths, EXTENSIONS).files) == ["a.jsonl", "b.jsonl", "deep/er/d.jsonl"]


@pytest.mark.parametrize("name", ["a[1].jsonl", "what?.jsonl", "100%#.jsonl", "ü ñ.jsonl", "star*.jsonl"])
def test_unusual_file_names_are_listed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"{}")
    for given in (tmp_path, tmp_path / name):
        [file] = list_files(given, EXTENSIONS).files
        with open_input(file.path) as stream:
            assert stream.read() == b"{}"


@pytest.mark.usefixtures("memory")
def test_url_is_listed_like_a_folder() -> None:
    for name in ("a.jsonl", "b.txt", "_x/c.jsonl"):
        with fsspec.open(f"memory://bucket/in/{name}", "wb") as stream:
            stream.write(b"12345")
    [file] = list_files("memory://bucket/in", EXTENSIONS).files
    assert file == SizedFile("memory:///bucket/in/a.jsonl", 5, "in/a.jsonl")
    with open_input(file.path) as stream:
        assert stream.read() == b"12345"
    with pytest.raises(InputError, match="memory://bucket/none: there is no such file or folder"):
        list_files("memory://bucket/none", EXTENSIONS)


def test_file_url_is_a_local_path(crawl: Path) -> None:
    assert list_files(f"file://{crawl}", EXTENSIONS).files == list_files(crawl, EXTENSIONS).files
    assert is_local(filesystem_of(f"file://{crawl}")[0])
    assert not is_local(filesystem_of("memory://x")[0])


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([], "the list of file_paths is empty"),
        ("{}/gone", "gone: there is no such file or folder"),
        ("{}/*.parquet", "no file matches this pattern"),
        ("{}/empty", "the folder is empty; expected files that end in .jsonl, .json"),
        ("{}/other", "none of its 2 files ends in .jsonl, .json; it has .csv, .txt. Set file_extensions"),
        ("nonsense://x/y", "nonsense://x/y: this kind of address cannot be opened here"),
    ],
)
def test_path_that_cannot_be_listed_is_reported_with_the_reason(
    tmp_path: Path, paths: str | list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    for name in ("a.txt", "b.csv"):
        (tmp_path / "other" / name).write_text("")
    given = paths.format(tmp_path) if isinstance(paths, str) else paths
    with pytest.raises(InputError) as caught:
        list_files(given, EXTENSIONS)
    assert message in str(caught.value)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_file_is_decompressed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(COMPRESS[suffix](b"content"))
    with open_input(str(path)) as stream:
        assert stream.read() == b"content"


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("damage", ["truncated", "flipped", "not compressed"])
def test_damaged_compressed_file_is_reported(tmp_path: Path, suffix: str, damage: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    whole = COMPRESS[suffix](bytes(range(256)) * 50)
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 20]) + whole[middle + 20 :]
    path.write_bytes({"truncated": whole[:-20], "flipped": flipped, "not compressed": b"plain text"}[damage])
    with pytest.raises(InputError, match=f"{path}: cannot be read"), open_input(str(path)) as stream:
        stream.read()


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"gone\.jsonl: there is no such file"),
        open_input(str(tmp_path / "gone.jsonl")),
    ):
        pass


@pytest.mark.parametrize("path", ["a", "./a/../b", "/a/b/", "/", "~/a", "a b", "ä/*.jsonl", "/a//b", "c:d", ""])
def test_local_path_is_resolved_as_by_fsspec(path: str) -> None:
    filesystem, name = filesystem_of(path)
    same, known = fsspec.core.url_to_fs(path)
    assert (type(filesystem), name) == (type(same), known)
