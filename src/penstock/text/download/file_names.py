"""Name downloaded files: readable, safe, and unique per URL."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import urlsplit

# A file system allows 255 bytes; ".tmp.part.json" is appended while a download is not complete.
_MAX_NAME_BYTES = 200
_HASH_DIGITS = 16
_UNSAFE = re.compile(r"[^\w.%+=@,~-]")
_MAX_ENDING_BYTES = 40


def file_name_of(url: str, layout: re.Pattern[str] | None = None) -> str:
    """Return the path of a URL as one name, with a hash of the whole URL before the extension.

    The hash distinguishes URLs that differ in host or query, or in characters that a file name cannot have. A fragment
    is not sent to a server (here it holds a checksum) and is ignored.

    ``layout`` matches the paths of a publisher that never uses one path for two files, on any mirror. For these the
    path alone is the name. It must not match two paths that differ only in dashes and slashes.

    >>> file_name_of("https://example.org/a/dump.jsonl.gz?part=1")
    'a-dump-3a3515b02600b5ad.jsonl.gz'
    """
    address = url.partition("#")[0]
    if layout is not None and "?" not in address and layout.fullmatch(urlsplit(address).path):
        return _flat_path(address)
    digest = hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    # Names that begin with '.' or '_' are treated as hidden files.
    readable = _UNSAFE.sub("_", _flat_path(address)).lstrip("._-") or "file"
    ending = _ending(_UNSAFE.sub("_", urlsplit(address).path.rpartition("/")[2]).lstrip("._"))
    stem_bytes = _MAX_NAME_BYTES - len(f"-{digest}{ending}".encode())
    stem = readable.removesuffix(ending).encode()[:stem_bytes].decode(errors="ignore")
    return f"{stem}-{digest}{ending}"


def _ending(name: str) -> str:
    """Return the part after the first dot of a name, or after the last dot if that is too long."""
    whole, last = name.partition(".")[2], name.rpartition(".")[2] if "." in name else ""
    return next((f".{part}" for part in (whole, last) if part and len(part.encode()) <= _MAX_ENDING_BYTES), "")


def _flat_path(url: str) -> str:
    return urlsplit(url).path.strip("/").replace("/", "-")
