"""Read the papers of an arXiv archive: a tar file whose members are compressed tar files or sources."""

from __future__ import annotations

import io
import re
import tarfile
import zlib
from collections.abc import Iterator
from typing import Any

from penstock.storage.filesystem import open_stored
from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.records import DocumentIterator

_LARGEST_PAPER = 512 << 20
# Before April 2007 an id began with its field: hep-th/9901001, stored as hep-th9901001.
_OLD_ID = re.compile(r"([a-zA-Z-]+)([\d.]+)")


class ArxivIterator(DocumentIterator):
    r"""Yield the LaTeX sources of each paper of an archive; nothing is unpacked on disk.

    A record has ``id``, ``source_id`` and ``content``, the list of sources. PDFs, and papers without LaTeX, are skipped
    and counted. ``log_frequency`` and ``extract_tmp_dir`` are accepted for compatibility and have no effect.

    >>> import gzip, io, tarfile, tempfile
    >>> paper = gzip.compress(rb"\section{One} Text.")
    >>> with tempfile.NamedTemporaryFile(suffix=".tar") as file:
    ...     with tarfile.open(fileobj=file, mode="w") as archive:
    ...         member = tarfile.TarInfo("2401/2401.00001.gz")
    ...         member.size = len(paper)
    ...         archive.addfile(member, io.BytesIO(paper))
    ...     file.flush()
    ...     [record] = ArxivIterator().iterate(file.name)
    >>> record["id"], record["content"]
    ('2401.00001', ['\\section{One} Text.'])
    """

    def __init__(self, log_frequency: int = 1000, extract_tmp_dir: str | None = None) -> None:
        # Neither is used: the executor shows progress, and nothing is unpacked on disk.
        self._log_frequency, self._extract_tmp_dir = log_frequency, extract_tmp_dir

    def iterate(self, file_path: str) -> Iterator[dict[str, Any] | Skipped | Damaged]:
        """Yield a record per paper, its sources in ``content``."""
        source = str(file_path).rpartition("/")[2]
        with open_stored(str(file_path)) as stream:
            try:
                with tarfile.open(fileobj=stream, mode="r|*") as papers:
                    for member in papers:
                        if member.isfile():
                            yield _paper(member, papers, source)
            except (tarfile.TarError, EOFError, zlib.error) as error:
                yield Damaged(f"the archive is truncated: {error}; was it downloaded completely?", stream.tell())

    def output_columns(self) -> list[str]:
        """Return the fields of a record."""
        return ["id", "source_id", "content"]


def _paper(member: tarfile.TarInfo, papers: tarfile.TarFile, source: str) -> dict[str, Any] | Skipped | Damaged:
    stem, _, kind = member.name.rpartition("/")[2].rpartition(".")
    if kind.lower() == "pdf":
        return Skipped("a PDF, not LaTeX")
    if member.size > _LARGEST_PAPER:
        reason = f"paper {member.name}: it has {member.size:,} bytes, more than the {_LARGEST_PAPER:,} allowed"
        return Damaged(reason, member.offset, member.name)
    file = papers.extractfile(member)
    packed = file.read() if file is not None else b""
    try:
        sources = list(_sources(_unpack(packed)))
    except (tarfile.TarError, zlib.error, ValueError, EOFError) as error:
        return Damaged(f"paper {member.name}: {error}", member.offset, member.name)
    if not sources:
        return Skipped("no LaTeX in the paper")
    return {"id": paper_id(stem or kind), "source_id": source, "content": sources}


def _unpack(packed: bytes) -> bytes:
    if not packed.startswith(b"\x1f\x8b"):
        return packed
    decoder = zlib.decompressobj(31)
    unpacked = decoder.decompress(packed, _LARGEST_PAPER)
    if not decoder.eof:
        whole = "it is larger than allowed" if len(unpacked) >= _LARGEST_PAPER else "it is truncated"
        raise ValueError(f"cannot be decompressed: {whole}")
    return unpacked


def _sources(unpacked: bytes) -> Iterator[str]:
    try:
        files = tarfile.open(fileobj=io.BytesIO(unpacked))  # noqa: SIM115 - only this line may say it is none
    except tarfile.ReadError:
        if not unpacked.startswith((b"%PDF", b"%!PS")):
            yield _decoded(unpacked)
        return
    with files:
        for member in files:
            file = files.extractfile(member) if member.isfile() and member.name.lower().endswith(".tex") else None
            if file is not None:
                yield _decoded(file.read())


def _decoded(source: bytes) -> str:
    """Return a source as text; old papers are in Latin-1."""
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError:
        return source.decode("latin-1")


def paper_id(stem: str) -> str:
    """Return the id arXiv knows a paper by.

    >>> paper_id("hep-th9901001"), paper_id("2101.00001")
    ('hep-th/9901001', '2101.00001')
    """
    match = _OLD_ID.fullmatch(stem)
    return f"{match[1]}/{match[2]}" if match else stem
