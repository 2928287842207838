"""Download one URL to one file: retried with pauses, resumed, verified, and renamed only when complete."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from penstock.errors import InputError, OutputError
from penstock.storage.filesystem import filesystem_of, reading
from penstock.text.download.http import (
    ATTEMPTS,
    FIRST_WAIT_S,
    TIMEOUT_S,
    Refused,
    TryAgain,
    get,
    wait,
)

_PIECE = 1 << 20
_CHECKSUMS = ("md5", "sha1", "sha256", "sha512")
PART_SUFFIX = ".part"


def fetch(
    url: str,
    path: str | Path,
    *,
    attempts: int = ATTEMPTS,
    timeout_s: float = TIMEOUT_S,
    first_wait_s: float = FIRST_WAIT_S,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Download a URL (http, https, or any that fsspec reaches) to a local path.

    An incomplete download is stored next to that path with the suffix ``.part``; another attempt, in this run or a
    later one, resumes it if the server allows. ``attempts`` is the number of consecutive attempts without progress. The
    URL can end in a checksum: ``…/dump.bz2#sha1=…``.
    """
    target = Path(path)
    address, checksum = _split_checksum(url)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(target.name + PART_SUFFIX)) as part:
            if target.exists():
                return  # another worker has downloaded it
            if urllib.parse.urlsplit(address).scheme in ("http", "https"):
                _fetch_with_retries(address, part, target, attempts, timeout_s, first_wait_s)
            else:
                _copy(address, part, storage_options)
            _verify(address, part, checksum)
            # Before the rename: a process that is killed in between leaves no extra file next to a complete one.
            _validator_file(part).unlink(missing_ok=True)
            Path(part.name).replace(target)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error}") from error


def _fetch_with_retries(
    url: str, part: IO[bytes], target: Path, attempts: int, timeout_s: float, first_wait_s: float
) -> None:
    failures = 0
    while True:
        before = _size(part)
        try:
            _continue(url, part, timeout_s)
        except Refused as error:
            _discard(part)
            raise InputError(f"{url}: cannot be downloaded: {error}.") from error
        except TryAgain as error:
            failures = 1 if _size(part) > before else failures + 1
            if failures >= attempts:
                raise InputError(
                    f"{url}: not downloaded, {attempts} attempts brought nothing; the last: {error}. "
                    f"Run again to resume. Without a network, put the file at {target} yourself: "
                    "a file that is there is not downloaded again."
                ) from error
            wait(failures, error.wait_s, first_wait_s)
        else:
            return


def _continue(url: str, part: IO[bytes], timeout_s: float) -> None:
    """Download the rest of a file, or all of it if it changed or the server does not support ranges."""
    have = _size(part)
    validator = _read_validator(part)
    if have and not validator:
        have = 0  # without a validator it may be another version of the file
    headers = {"Range": f"bytes={have}-", "If-Range": validator} if have else {}
    with get(url, headers, timeout_s) as response:
        if response.status == 416:
            if response.headers.get("Content-Range") == f"bytes */{have}":
                return  # it was complete already
            _discard(part)
            raise TryAgain("the file changed on the server")
        if response.status != 206:
            have = 0
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            _discard(part)
            raise TryAgain(f"the server sent another part than asked for: {response.headers.get('Content-Range')}")
        part.truncate(have)
        part.seek(have)
        _write_validator(part, response.headers.get("ETag") or response.headers.get("Last-Modified"))
        announced = response.headers.get("Content-Length")
        response.enforce_content_length = False  # checked below, after the received bytes are saved
        try:
            for piece in response.stream(_PIECE):
                part.write(piece)
        finally:
            part.flush()
        if announced is not None and _size(part) - have != int(announced):
            raise TryAgain(f"{int(announced):,} bytes were announced and {_size(part) - have:,} came")


def _copy(url: str, part: IO[bytes], storage_options: dict[str, Any] | None) -> None:
    filesystem, name = filesystem_of(url, storage_options)
    with reading(url):
        announced = filesystem.size(name)
        have = _size(part)
        if announced is None or have > announced:
            have = 0
        part.truncate(have)
        part.seek(have)
        with filesystem.open(name, "rb") as source:
            source.seek(have)
            while piece := source.read(_PIECE):
                part.write(piece)
        part.flush()
    if announced is not None and _size(part) != announced:
        raise InputError(f"{url}: holds {announced:,} bytes, {_size(part):,} came. Run again to resume.")


def _verify(url: str, part: IO[bytes], checksum: tuple[str, str] | None) -> None:
    if checksum is None:
        return
    name, expected = checksum
    with Path(part.name).open("rb") as whole:
        digest = hashlib.file_digest(whole, name).hexdigest()
    if digest != expected.lower():
        _discard(part)
        raise InputError(
            f"{url}: its {name} is {digest}, expected {expected}. The download was discarded; run again, and if it "
            "happens again the file on the server is not the one announced."
        )


def _split_checksum(url: str) -> tuple[str, tuple[str, str] | None]:
    address, _, fragment = url.partition("#")
    name, _, digest = fragment.partition("=")
    return (address, (name, digest)) if name in _CHECKSUMS and digest else (address, None)


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """Open a partial file with a lock: two workers must not write into one file."""
    while True:
        with path.open("a+b") as part:
            fcntl.flock(part, fcntl.LOCK_EX)
            # The worker that held the lock before may have finished and renamed the file.
            if path.exists() and path.stat().st_ino == _inode(part):
                try:
                    yield part
                finally:
                    if path.exists() and _size(part) == 0:
                        path.unlink()
                return


def _inode(part: IO[bytes]) -> int:
    return os.fstat(part.fileno()).st_ino


def _size(part: IO[bytes]) -> int:
    return part.seek(0, 2)


def _discard(part: IO[bytes]) -> None:
    part.truncate(0)
    _validator_file(part).unlink(missing_ok=True)


# The validator (ETag or date) identifies the version of the file on the server.
def _validator_file(part: IO[bytes]) -> Path:
    return Path(part.name + ".json")


def _read_validator(part: IO[bytes]) -> str:
    try:
        return str(json.loads(_validator_file(part).read_text())["validator"])
    except (OSError, ValueError, KeyError):
        return ""


def _write_validator(part: IO[bytes], validator: str | None) -> None:
    # A weak validator does not promise the same bytes.
    if validator and not validator.startswith("W/"):
        _validator_file(part).write_text(json.dumps({"validator": validator}))
    else:
        _validator_file(part).unlink(missing_ok=True)
