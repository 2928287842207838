"""Writing documents as tokens for Megatron: a ``.bin`` of token ids and an ``.idx`` that says where each begins.

The layout of an index, little-endian: nine bytes ``MMIDIDX\\0\\0``, version 1 (8 bytes), a code for the type of the
tokens (1 byte), how many sequences (8), how many borders of documents (8); then for each sequence its length in tokens
(int32), for each its first byte in the ``.bin`` (int64), and the borders of documents, in sequences (int64).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.files import FileGroupTask
from penstock.core.stage import Spec
from penstock.core.worker_info import NodeInfo, WorkerMetadata
from penstock.errors import InputError, StageError
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import filesystem_of
from penstock.text.io.writer import DocumentWriter
from penstock.text.text_column import text_column
from penstock.text.tokenizer import TokenizerSource, encode, path_or_name, refuse_options

_MAGIC = b"MMIDIDX\x00\x00"
# Types of tokens by Megatron's own numbers.
_CODES = {np.dtype(np.uint16): 8, np.dtype(np.int32): 4}


class MegatronTokenizerWriter(DocumentWriter):
    """Write each batch as a pair of files that Megatron trains on, one sequence per document.

    ``model_identifier`` names a tokenizer on the Hugging Face hub, in a folder or in a ``tokenizer.json``. A token
    takes two bytes if the vocabulary allows it, otherwise four. ``append_eod`` appends the end-of-text token to each
    document. An empty or null document is a sequence of no tokens, so sequence numbers and row numbers agree. A batch
    without any token writes no file, because Megatron cannot open an empty one. ``tokenization_batch_size`` documents
    are tokenized and written at a time. Needs ``penstock[models]``.

    >>> import tempfile
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> from penstock.testing import make_batch, run_stage
    >>> tokenizer = Tokenizer(models.WordLevel({"one": 0, "two": 1, "<unk>": 2}, unk_token="<unk>"))
    >>> tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tokenizer.save(f"{folder}/tokenizer.json")
    ...     writer = MegatronTokenizerWriter(f"{folder}/tokens", f"{folder}/tokenizer.json")
    ...     [written] = run_stage(writer, make_batch(["one two one", "two"]))
    ...     tokens = np.fromfile(written.data[0], np.uint16)
    >>> tokens.tolist()
    [0, 1, 0, 1]
    """

    name = "megatron_tokenizer_writer"
    default_extension: ClassVar[str] = "bin"
    file_format: ClassVar[str] = "megatron"
    reusable_process = True
    preload = ("penstock.text.io.preload_json",)

    def __init__(
        self,
        path: str | Path,
        model_identifier: str | os.PathLike[str],
        text_field: str = "text",
        tokenization_batch_size: int = 1000,
        append_eod: bool = False,
        cache_dir: str | None = None,
        hf_token: str | None = None,
        transformers_init_kwargs: dict[str, Any] | None = None,
        write_kwargs: dict[str, Any] | None = None,
        mode: str = "ignore",
    ) -> None:
        super().__init__(path, write_kwargs, None, mode)
        if tokenization_batch_size < 1:
            raise ValueError(f"MegatronTokenizerWriter: tokenization_batch_size={tokenization_batch_size}; 1 or more.")
        options = dict(transformers_init_kwargs or {})
        refuse_options(
            "MegatronTokenizerWriter",
            options,
            {
                "cache_dir": "Write cache_dir=…",
                "token": "Write hf_token=…",
                "local_files_only": "Leave it out: files are fetched once per node.",
            },
        )
        self.text_field = text_field
        self.tokenization_batch_size = tokenization_batch_size
        self.append_eod = append_eod
        self._source = TokenizerSource(path_or_name(model_identifier), self.name, hf_token, cache_dir, options)
        self._tokenizer: Any = None

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Fetch the tokenizer if it is not on this machine."""
        self._source.fetch()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Open the tokenizer."""
        self._tokenizer = self._source.open()
        if self.append_eod and self._tokenizer.eos_token_id is None:
            raise InputError(
                f"stage '{self.name}': append_eod is set, but the tokenizer '{self._source.name}' has no end-of-text "
                "token. Name one: transformers_init_kwargs={'eos_token': '…'}."
            )

    def process(self, task: DocumentBatch) -> FileGroupTask | None:
        """Write one pair of files, named after the input that the documents come from."""
        stem = self.stem_of(task)
        texts = text_column(task, self.text_field)
        if texts is None:
            kind = task.column(self.text_field).type
            raise StageError(f"stage '{self.name}': column '{self.text_field}' holds {kind}, not text. Set text_field.")
        kind = np.dtype(np.uint16 if self._vocabulary <= 2**16 else np.int32)
        try:
            # The index is published last: where there is an index, its tokens are complete.
            with atomic_write(f"{stem}.idx", self.storage_options) as index:
                with atomic_write(f"{stem}.bin", self.storage_options) as tokens:
                    lengths = self._write_tokens(texts, kind, tokens)
                _write_index(lengths, kind, index)
        except _NoTokens:
            for extension in ("idx", "bin"):
                self._remove_if_there(f"{stem}.{extension}")  # an earlier run may have written files here
            return None
        self._log_metrics({"tokens": float(lengths.sum()), "documents_without_tokens": float((lengths == 0).sum())})
        metadata = {
            "format": self.file_format,
            "file_prefix": stem,
            "num_tokens": int(lengths.sum()),
            "token_size": kind.itemsize,
            "eod_token_id": -1 if self._tokenizer.eos_token_id is None else self._tokenizer.eos_token_id,
        }
        return FileGroupTask(task.dataset_name, [f"{stem}.bin", f"{stem}.idx"], _metadata=metadata)

    def inputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    @property
    def extensions(self) -> tuple[str, ...]:
        """Tokens, and the index of where each document begins."""
        return ("bin", "idx")

    def before_run(self, *, resuming: bool) -> None:
        """Check the output folder; with ``mode="overwrite"`` remove old index files too."""
        super().before_run(resuming=resuming)
        filesystem, folder = filesystem_of(self.path, self.storage_options)
        if self.mode == "overwrite" and not resuming and filesystem.isdir(folder):
            for name in filesystem.ls(folder, detail=False):
                if name.endswith(".idx"):
                    filesystem.rm(name)

    @property
    def _vocabulary(self) -> int:
        """The number of token ids, tokens added to the vocabulary included."""
        return max(len(self._tokenizer), self._tokenizer.vocab_size or 0)

    def _write_tokens(self, texts: pa.Array, kind: np.dtype[Any], stream: IO[bytes]) -> npt.NDArray[np.int32]:
        """Write the tokens of all documents, and return the number of tokens of each."""
        lengths = [np.zeros(0, np.int32)]
        for documents in self._encoded(texts):
            lengths.append(np.array([len(document) for document in documents], np.int32))
            stream.write(np.array([token for document in documents for token in document], kind).tobytes())
        total = np.concatenate(lengths)
        if not total.any():
            raise _NoTokens
        return total

    def _encoded(self, texts: pa.Array) -> Iterator[list[list[int]]]:
        end = [self._tokenizer.eos_token_id] if self.append_eod else []
        for start in range(0, len(texts), self.tokenization_batch_size):
            some = [text or "" for text in texts.slice(start, self.tokenization_batch_size).to_pylist()]
            encoded = encode(self._tokenizer, some, special=False)
            yield [[*document, *end] for document in encoded] if end else encoded


def _write_index(lengths: npt.NDArray[np.int32], kind: np.dtype[Any], stream: IO[bytes]) -> None:
    ends = np.cumsum(lengths, dtype=np.int64) * kind.itemsize
    stream.write(_MAGIC + struct.pack("<QBQQ", 1, _CODES[kind], len(lengths), len(lengths) + 1))
    stream.write(lengths.astype("<i4").tobytes())
    stream.write((ends - lengths.astype(np.int64) * kind.itemsize).astype("<i8").tobytes())
    stream.write(np.arange(len(lengths) + 1, dtype="<i8").tobytes())


class _NoTokens(Exception):  # noqa: N818 - no error, only a way out of two files at once
    """Stops the writing of files that would be empty."""
