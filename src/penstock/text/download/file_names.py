"""The name a URL gets in the download folder: readable, safe, and never the same for two URLs."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import urlsplit

# A file system takes 255 bytes; ".tmp.part.json" is appended while a download is not complete.
_MOST_BYTES = 200
_DIGITS = 16
_UNSAFE = re.compile(r"[^\w.%+=@,~-]")
_LONGEST_ENDING = 40


def file_name_of(url: str, layout: re.Pattern[str] | None = None) -> str:
    """Return the path of a URL in one piece, with a hash of the whole URL before the ending.

    The hash keeps URLs apart that differ in host or query, or in what cannot be part of a file name. A fragment is not
    part of what is asked of a server (here it holds a checksum) and does not count.

    ``layout`` describes the paths of a publisher that never uses one path for two files; mirrors have the same. For
    those the path alone is the name. It must allow no two paths that differ only in dashes and slashes.

    >>> file_name_of("https://example.org/a/dump.jsonl.gz?part=1")
    'a-dump-3a3515b02600b5ad.jsonl.gz'
    """
    address = url.partition("#")[0]
    if layout is not None and "?" not in address and layout.fullmatch(urlsplit(address).path):
        return _flat_path(address)
    digest = hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    # Names that begin with '.' or '_' are hidden files to everything that lists the folder.
    readable = _UNSAFE.sub("_", _flat_path(address)).lstrip("._-") or "file"
    ending = _ending(_UNSAFE.sub("_", urlsplit(address).path.rpartition("/")[2]).lstrip("._"))
    room = _MOST_BYTES - len(f"-{digest}{ending}".encode())
    stem = readable.removesuffix(ending).encode()[:room].decode(errors="ignore")
    return f"{stem}-{digest}{ending}"


def _ending(name: str) -> str:
    """Return all that follows the first dot of a name, or the last one if that is too long."""
    whole, last = name.partition(".")[2], name.rpartition(".")[2] if "." in name else ""
    return next((f".{part}" for part in (whole, last) if part and len(part.encode()) <= _LONGEST_ENDING), "")


def _flat_path(url: str) -> str:
    return urlsplit(url).path.strip("/").replace("/", "-")
