"""Fetch and open a Hugging Face tokenizer, and apply it to many documents at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import InputError
from penstock.extras import require

_TEXTS_PER_CALL = 256


@dataclass(frozen=True)
class TokenizerSource:
    """The origin of a tokenizer: a model on the hub, a folder, or a ``tokenizer.json``."""

    name: str
    purpose: str
    hf_token: str | None = field(default=None, repr=False)
    cache_dir: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def fetch(self) -> None:
        """Fetch the files if they are not on this machine."""
        if not Path(self.name).exists():
            self._open(local_files_only=False, token=self.hf_token)

    def open(self) -> Any:  # noqa: ANN401 - transformers has no types worth the import
        """Return the tokenizer, from local files only."""
        if Path(self.name).is_file():
            transformers = require("transformers", "models", self.purpose)
            return transformers.PreTrainedTokenizerFast(tokenizer_file=self.name, **self.options)
        return self._open(local_files_only=True)

    def _open(self, **how: Any) -> Any:  # noqa: ANN401
        transformers = require("transformers", "models", self.purpose)
        try:
            return transformers.AutoTokenizer.from_pretrained(
                self.name, cache_dir=self.cache_dir, **how, **self.options
            )
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.purpose}: the tokenizer '{self.name}' is not on this machine and could not be fetched: "
                f"{str(error).splitlines()[0]} Give the folder of a model that has a tokenizer.json, or, on a machine "
                f"with a network, type: hf download {self.name}"
            ) from error


def encode(tokenizer: Any, texts: Sequence[str], *, special: bool) -> list[list[int]]:  # noqa: ANN401
    """Return the token ids of each text, with or without the special tokens around a text."""
    backend = _backend(tokenizer)
    if backend is not None:
        return [encoded.ids for encoded in backend.encode_batch_fast(list(texts), add_special_tokens=special)]
    return [list(tokenizer.encode(text, add_special_tokens=special)) for text in texts]


def count_tokens(tokenizer: Any, texts: Sequence[str]) -> list[int]:  # noqa: ANN401
    """Return the number of tokens of each text, special tokens included."""
    backend = _backend(tokenizer)
    if backend is None:
        return [len(tokenizer.encode(text)) for text in texts]
    counts: list[int] = []
    # In groups: the encoding of a text takes about fifty times the memory of the text until it is counted.
    for start in range(0, len(texts), _TEXTS_PER_CALL):
        some = list(texts[start : start + _TEXTS_PER_CALL])
        counts += [len(encoded) for encoded in backend.encode_batch_fast(some, add_special_tokens=True)]
    return counts


def _backend(tokenizer: Any) -> Any:  # noqa: ANN401
    """Return the compiled tokenizer inside, without truncation and padding; None if there is only Python."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "encode_batch_fast"):
        return None
    # A tokenizer.json may enable both, which would make counts wrong.
    backend.no_truncation()
    backend.no_padding()
    return backend


def refuse_options(owner: str, options: dict[str, Any], instead: dict[str, str]) -> None:
    """Refuse options for transformers that the owner sets itself or takes by another name."""
    for option, advice in instead.items():
        if option in options:
            raise ValueError(f"{owner}: transformers_init_kwargs has '{option}'. {advice}")


def path_or_name(given: str | os.PathLike[str]) -> str:
    """Return a model name or path as text.

    >>> path_or_name(Path("models") / "small")
    'models/small'
    """
    return os.fspath(given)
