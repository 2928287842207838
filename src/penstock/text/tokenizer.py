"""A Hugging Face tokenizer: found or fetched, opened, and applied to many documents at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import InputError
from penstock.extras import require

_AT_ONCE = 256


@dataclass(frozen=True)
class TokenizerSource:
    """Where a tokenizer comes from: the name of a model on the hub, a folder with one, or a ``tokenizer.json``."""

    name: str
    purpose: str
    hf_token: str | None = field(default=None, repr=False)
    cache_dir: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def fetch(self) -> None:
        """See that the files are on this machine; fetch them if they are not."""
        if not Path(self.name).exists():
            self._open(local_files_only=False, token=self.hf_token)

    def open(self) -> Any:  # noqa: ANN401 - transformers has no types worth the import
        """Return the tokenizer, from files of this machine only."""
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
                f"{self.purpose}: there is no tokenizer '{self.name}' here, and none could be fetched: "
                f"{str(error).splitlines()[0]} Give the folder of a model that has a tokenizer.json, or, on a machine "
                f"with a network, type: hf download {self.name}"
            ) from error


def encode(tokenizer: Any, texts: Sequence[str], *, special: bool) -> list[list[int]]:  # noqa: ANN401
    """Return the token ids of each text, all of them, with or without the tokens a model wants around a text."""
    backend = _backend(tokenizer)
    if backend is not None:
        return [encoded.ids for encoded in backend.encode_batch_fast(list(texts), add_special_tokens=special)]
    return [list(tokenizer.encode(text, add_special_tokens=special)) for text in texts]


def count_tokens(tokenizer: Any, texts: Sequence[str]) -> list[int]:  # noqa: ANN401
    """Return how many tokens each text has, those around it included."""
    backend = _backend(tokenizer)
    if backend is None:
        return [len(tokenizer.encode(text)) for text in texts]
    counts: list[int] = []
    # Some at a time: what a tokenizer makes of a text takes some fifty times the memory of the text, until counted.
    for start in range(0, len(texts), _AT_ONCE):
        some = list(texts[start : start + _AT_ONCE])
        counts += [len(encoded) for encoded in backend.encode_batch_fast(some, add_special_tokens=True)]
    return counts


def _backend(tokenizer: Any) -> Any:  # noqa: ANN401
    """Return the compiled tokenizer inside, set to leave nothing out; None where there is only Python."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "encode_batch_fast"):
        return None
    # A tokenizer.json may ask for both, and a count of padding, or of the first 128 tokens, is no count.
    backend.no_truncation()
    backend.no_padding()
    return backend


def refuse_options(owner: str, options: dict[str, Any], instead: dict[str, str]) -> None:
    """Refuse options for transformers that the owner decides itself or takes by another name."""
    for option, advice in instead.items():
        if option in options:
            raise ValueError(f"{owner}: transformers_init_kwargs has '{option}'. {advice}")


def path_or_name(given: str | os.PathLike[str]) -> str:
    """Return what a user gave for a model as text.

    >>> path_or_name(Path("models") / "small")
    'models/small'
    """
    return os.fspath(given)
