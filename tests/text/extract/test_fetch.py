"""Downloads over an unreliable network."""

import hashlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from flaky_server import FlakyServer, flaky_server

from penstock.core.files import FileGroupTask
from penstock.errors import InputError
from penstock.testing import run_stage
from penstock.text import DocumentDownloader, DocumentDownloadStage, URLGenerationStage, URLGenerator
from penstock.text.download.fetch import fetch
from penstock.text.download.http import get_bytes

CONTENT = bytes(range(256)) * 20_000


@pytest.fixture
def server() -> Iterator[FlakyServer]:
    with flaky_server() as state:
        yield state


@pytest.fixture
def url(server: FlakyServer) -> str:
    server.files["/data.bin"] = CONTENT
    return f"{server.url}/data.bin"


def ranges(server: FlakyServer) -> list[str | None]:
    return [asked for _, asked in server.requests]


def test_a_download_is_complete_and_leaves_no_temporary_file(url: str, tmp_path: Path) -> None:
    fetch(url, tmp_path / "new" / "data.bin")
    assert (tmp_path / "new" / "data.bin").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["data.bin"]


@pytest.mark.parametrize("trouble", ["429", "503", "500", "408", "hang up"])
def test_temporary_server_errors_are_retried(server: FlakyServer, url: str, tmp_path: Path, trouble: str) -> None:
    server.troubles = [trouble, trouble]
    fetch(url, tmp_path / "data.bin", first_wait_s=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert len(server.requests) == 3


def test_an_interrupted_download_is_resumed(server: FlakyServer, url: str, tmp_path: Path) -> None:
    server.troubles = ["break off", "break off"]
    fetch(url, tmp_path / "data.bin", first_wait_s=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert ranges(server) == [None, f"bytes={len(CONTENT) // 2}-", f"bytes={len(CONTENT) * 3 // 4}-"]


def test_progress_resets_the_number_of_attempts(server: FlakyServer, url: str, tmp_path: Path) -> None:
    server.troubles = ["break off", "503"] * 6
    fetch(url, tmp_path / "data.bin", attempts=3, first_wait_s=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_later_run_resumes_a_download_too(server: FlakyServer, url: str, tmp_path: Path) -> None:
    server.troubles = ["break off", "503", "503"]
    with pytest.raises(InputError, match="Run again to resume"):
        fetch(url, tmp_path / "data.bin", attempts=2, first_wait_s=0)
    assert not (tmp_path / "data.bin").exists()
    fetch(url, tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert ranges(server)[-1] == f"bytes={len(CONTENT) // 2}-"


@pytest.mark.parametrize("lacks", ["gives_parts", "has_etag"])
def test_a_download_restarts_if_the_server_has_no_ranges_or_validators(
    server: FlakyServer, url: str, tmp_path: Path, lacks: str
) -> None:
    setattr(server, lacks, False)
    server.troubles = ["break off"]
    fetch(url, tmp_path / "data.bin", first_wait_s=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_file_that_changed_on_the_server_is_downloaded_again(server: FlakyServer, url: str, tmp_path: Path) -> None:
    server.troubles = ["break off", "503"]
    with pytest.raises(InputError):
        fetch(url, tmp_path / "data.bin", attempts=1, first_wait_s=0)
    server.troubles = []
    server.files["/data.bin"] = CONTENT[::-1]
    fetch(url, tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT[::-1]


def test_a_checksum_in_the_url_is_checked(url: str, tmp_path: Path) -> None:
    fetch(f"{url}#sha1={hashlib.sha1(CONTENT).hexdigest()}", tmp_path / "good.bin")
    with pytest.raises(InputError, match=r"its md5 is [0-9a-f]{32}, expected 0123"):
        fetch(f"{url}#md5=0123", tmp_path / "bad.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["good.bin"]


def test_a_missing_file_is_not_retried(server: FlakyServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/absent: cannot be downloaded: HTTP 404"):
        fetch(f"{server.url}/absent", tmp_path / "x", first_wait_s=0)
    assert len(server.requests) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("location", ["/moved/data.bin", "data.bin", "//HOST/data.bin", "http://HOST/data.bin"])
def test_a_redirect_is_followed(server: FlakyServer, url: str, tmp_path: Path, location: str) -> None:
    server.redirects["/old"] = location.replace("HOST", server.url.removeprefix("http://"))
    server.redirects["/moved/data.bin"] = "../data.bin"
    fetch(f"{server.url}/old", tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_an_interrupted_redirected_download_is_resumed(server: FlakyServer, url: str, tmp_path: Path) -> None:
    server.redirects["/old"] = "/data.bin"
    server.troubles = ["break off"]
    fetch(f"{server.url}/old", tmp_path / "data.bin", first_wait_s=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert ranges(server)[-1] == f"bytes={len(CONTENT) // 2}-"


def test_too_many_redirects_are_listed(server: FlakyServer, tmp_path: Path) -> None:
    server.redirects = {"/a": "/b", "/b": "/a"}
    with pytest.raises(InputError, match=rf"redirected more than 10 times: {server.url}/a -> {server.url}/b -> "):
        fetch(f"{server.url}/a", tmp_path / "x", first_wait_s=0)
    assert len(server.requests) == 11


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://x/y", "http://[x/", "http://x:99999999/"])
def test_a_redirect_to_anything_but_a_web_address_is_refused(
    server: FlakyServer, tmp_path: Path, location: str
) -> None:
    server.redirects = {"/a": location}
    with pytest.raises(InputError, match="redirected "):
        fetch(f"{server.url}/a", tmp_path / "x", first_wait_s=0)
    assert list(tmp_path.iterdir()) == []


def test_credentials_are_not_sent_to_another_server(server: FlakyServer) -> None:
    secret = {"Authorization": "Bearer secret", "cookie": "secret", "X-Kind": "plain"}
    server.files["/data"] = b"1"
    with flaky_server() as other:
        other.files["/data"] = b"2"
        server.redirects = {"/here": "/data", "/there": f"{other.url}/data"}
        assert get_bytes(f"{server.url}/here", secret) == b"1"
        assert server.headers["Authorization"] == "Bearer secret"
        assert get_bytes(f"{server.url}/there", secret) == b"2"
        assert not {"authorization", "cookie"} & {name.lower() for name in other.headers}
        assert other.headers["X-Kind"] == "plain"


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no-such-host\.invalid/a\.gz: not downloaded.*put the file at .*a\.gz yourself"
    ):
        fetch("http://no-such-host.invalid/a.gz", tmp_path / "a.gz", attempts=2, first_wait_s=0)


def test_any_url_that_fsspec_supports_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "there.bin").write_bytes(CONTENT)
    fetch(f"file://{tmp_path}/there.bin", tmp_path / "here.bin")
    assert (tmp_path / "here.bin").read_bytes() == CONTENT
    with pytest.raises(InputError, match="no such file"):
        fetch(f"file://{tmp_path}/absent.bin", tmp_path / "x")


def test_concurrent_downloads_of_one_file_do_not_mix_their_bytes(url: str, tmp_path: Path) -> None:
    threads = [threading.Thread(target=fetch, args=(url, tmp_path / "data.bin")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["data.bin"]


class Two(URLGenerator):
    def __init__(self, url: str) -> None:
        self.url = url

    def generate_urls(self) -> list[str]:
        return [f"{self.url}/a/one.gz", f"{self.url}/a/two.gz"]


def test_the_stages_list_and_download_each_file_once(server: FlakyServer, tmp_path: Path) -> None:
    server.files = {"/a/one.gz": b"1", "/a/two.gz": b"2"}
    tasks = run_stage(URLGenerationStage(Two(server.url)))
    assert [task._metadata["source_url"] for task in tasks] == Two(server.url).generate_urls()
    assert len(run_stage(URLGenerationStage(Two(server.url), limit=1))) == 1
    stage = DocumentDownloadStage(DocumentDownloader(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
    files = [file for task in run_stage(stage, *tasks) for file in task.data]
    assert [re.sub("-[0-9a-f]{16}", "", Path(file).name) for file in files] == ["a-one.gz", "a-two.gz"]
    assert [Path(file).read_bytes() for file in files] == [b"1", b"2"]
    run_stage(stage, *tasks)
    assert len(server.requests) == 2


def test_different_urls_are_different_files(server: FlakyServer, tmp_path: Path) -> None:
    paths = ["/dump.jsonl?part=1", "/dump.jsonl?part=2", "/a/b", "/a-b", "/a//b", "/A/b", "/a%2Fb", "/"]
    server.files = {path: path.encode() for path in paths}
    downloader = DocumentDownloader(str(tmp_path))
    with flaky_server() as other:
        other.files = {path: f"other {path}".encode() for path in paths}
        for place in (server, other, server):
            for path in paths:
                file = Path(downloader.download(f"{place.url}{path}"))
                assert file.parent == tmp_path
                assert file.read_bytes() == place.files[path]
    assert len(list(tmp_path.iterdir())) == 2 * len(paths)
    assert len(server.requests) == len(paths)


class Escaping(DocumentDownloader):
    def _get_output_filename(self, url: str) -> str:
        return url.removeprefix("name:")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "."])
def test_a_file_name_outside_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="not inside the download folder"):
        Escaping(str(tmp_path / "downloads")).download(f"name:{name}")
    assert list(tmp_path.iterdir()) == []


class Sulking(DocumentDownloader):
    def _download_to_path(self, url: str, path: str) -> tuple[bool, str | None]:
        return False, "it rains"


def test_the_error_of_a_users_downloader_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="http://x/y: cannot be downloaded: it rains"):
        run_stage(DocumentDownloadStage(Sulking(str(tmp_path))), FileGroupTask("test", ["http://x/y"]))
