"""The lines that C4 keeps of a page: sentences, and none about cookies or JavaScript."""

from __future__ import annotations

import re

import pyarrow as pa

from penstock.core.documents import DocumentBatch
from penstock.core.stage import ProcessingStage, Spec
from penstock.text.filters.text_column import text_column

_END_MARKS = (".", "?", "!", '"', "'")
_CITATION = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
_POLICY_PHRASES = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


class C4Lines(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keeps of each document the lines that C4 would keep; the document stays, even if nothing is left of it.

    A line goes that does not end in one of ``. ? ! " '`` or ends in an ellipsis, that has too few words or one too
    long, that speaks of JavaScript, of cookies or of terms of use. What stays loses white space at both ends and marks
    of citation such as ``[1]``. A null document stays null, an empty one empty.

    >>> from penstock.testing import make_batch
    >>> batch = make_batch([chr(10).join(["Home", "It was a dark night.[1]", "Please enable JavaScript."])])
    >>> C4Lines().process(batch).to_pyarrow()["text"].to_pylist()
    ['It was a dark night.']
    """

    name = "c4_lines"

    def __init__(
        self,
        text_field: str = "text",
        remove_citations: bool = True,
        filter_no_terminal_punct: bool = True,
        min_words_per_line: int = 3,
        max_word_length: int = 1000,
        filter_javascript: bool = True,
        filter_policy: bool = True,
    ) -> None:
        self.text_field = text_field
        self.remove_citations = remove_citations
        self.filter_no_terminal_punct = filter_no_terminal_punct
        self.min_words_per_line = min_words_per_line
        self.max_word_length = max_word_length
        self.filter_javascript = filter_javascript
        self.filter_policy = filter_policy

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the documents with only these lines."""
        texts = text_column(task, self.text_field).to_pylist()
        changed = [None if text is None else self.modify_document(text) for text in texts]
        if changed == texts:
            return task
        return task.with_columns({self.text_field: pa.array(changed, pa.large_string())})

    def modify_document(self, text: str) -> str:
        """Return the lines of a document that are kept."""
        lines = (self._kept(line.strip()) for line in text.splitlines())
        return "\n".join(line for line in lines if line is not None).strip()

    def inputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        """Return the text column."""
        return ["data"], [self.text_field]

    def _kept(self, line: str) -> str | None:
        words = line.split()
        if len(words) < self.min_words_per_line or any(len(word) > self.max_word_length for word in words):
            return None
        if self.remove_citations:
            line = _CITATION.sub("", line)
        if self.filter_no_terminal_punct and (not line.endswith(_END_MARKS) or line.endswith("...")):
            return None
        lowered = line.lower()
        if self.filter_javascript and "javascript" in lowered:
            return None
        if self.filter_policy and any(phrase in lowered for phrase in _POLICY_PHRASES):
            return None
        return line
