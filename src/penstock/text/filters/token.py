"""Filter by the length of a document in tokens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from penstock.text.filters.document_filter import DocumentFilter
from penstock.text.tokenizer import TokenizerSource, count_tokens, path_or_name, refuse_options


class TokenCountFilter(DocumentFilter):
    """Keep documents with ``min_tokens`` to ``max_tokens`` tokens, the special tokens around a text included.

    ``tokenizer`` is an object of ``transformers`` or ``tokenizers``; or ``hf_model_name`` names one on the Hugging Face
    hub, in a folder or in a ``tokenizer.json``. An empty or null document has only the special tokens, often none.
    Needs ``penstock[models]``.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> tokenizer = Tokenizer(models.WordLevel({"one": 0, "<unk>": 1}, unk_token="<unk>"))
    >>> tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    >>> TokenCountFilter(tokenizer, max_tokens=100).score_document("one two three")
    3
    """

    name = "token_count"

    def __init__(
        self,
        tokenizer: Any = None,  # noqa: ANN401 - transformers has no types worth the import
        hf_model_name: str | os.PathLike[str] | None = None,
        hf_token: str | None = None,
        min_tokens: int = 0,
        max_tokens: float = float("inf"),
        transformers_init_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if (tokenizer is None) == (hf_model_name is None):
            raise ValueError("TokenCountFilter: give either a tokenizer or an hf_model_name.")
        options = dict(transformers_init_kwargs or {})
        refuse_options(
            "TokenCountFilter",
            options,
            {"local_files_only": "Leave it out: files are fetched once per node.", "token": "Write hf_token=…"},
        )
        self.min_tokens = min_tokens
        self.max_tokens = max_tokens
        self._tokenizer = tokenizer
        self._source = (
            None
            if hf_model_name is None
            else TokenizerSource(path_or_name(hf_model_name), "TokenCountFilter", hf_token, None, options)
        )

    def model_check_or_download(self) -> None:
        """Fetch the tokenizer if it is not on this machine."""
        if self._source is not None:
            self._source.fetch()

    def load_tokenizer(self) -> None:
        """Open the tokenizer."""
        if self._source is not None:
            self._tokenizer = self._source.open()

    def score_document(self, text: str) -> int:
        """Return the number of tokens."""
        return self.score_documents([text])[0]

    def score_documents(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each document."""
        return count_tokens(self._tokenizer, texts)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``min_tokens <= score <= max_tokens``."""
        return self.min_tokens <= score <= self.max_tokens
