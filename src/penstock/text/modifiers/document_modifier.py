"""The modifier interface: a document in, the changed document out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.text.reported_name import Named


class DocumentModifier(Named):
    """Change documents; a subclass defines ``modify_document`` and is used with ``Modify``.

    ``modify_document`` is called with the value of the input field, or, with several input fields, with their values as
    keyword arguments. Null documents are not passed to it and remain null. The class attribute ``name`` is the name in
    tables and errors; without it the class name is used.

    >>> class Shout(DocumentModifier):
    ...     def modify_document(self, text: str) -> str:
    ...         return text.upper()
    >>> Shout().name, Shout().modify_document("hey")
    ('Shout', 'HEY')
    """

    def modify_document(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - a modifier chooses what it takes
        """Return the changed document."""
        raise NotImplementedError(f"{type(self).__name__} defines no modify_document(self, text).")


class TextModifier(DocumentModifier):
    """Change texts column by column, calling ``modify_document`` only for documents that can change.

    ``could_change`` is a quick test that may select too many documents but never too few. A subclass overrides
    ``modify_texts`` if Arrow has a function that does the work.

    >>> class Tidy(TextModifier):
    ...     def could_change(self, texts: pa.Array) -> pa.Array:
    ...         return pc.match_substring(texts, "--")
    ...
    ...     def modify_document(self, text: str) -> str:
    ...         return text.replace("--", "–")
    >>> Tidy().modify_texts(pa.array(["a--b", None, "c"])).to_pylist()
    ['a–b', None, 'c']
    """

    def could_change(self, texts: pa.Array) -> pa.Array:
        """Return, for each document, whether it may change."""
        return pc.is_valid(texts)

    def modify_texts(self, texts: pa.Array) -> pa.Array:
        """Return the changed documents; the same array object if none changed."""
        suspects = pc.fill_null(self.could_change(texts), False)
        documents = texts.filter(suspects).to_pylist()
        modified = [self.modify_document(text) for text in documents]
        if modified == documents:
            return texts
        return pc.replace_with_mask(texts, suspects, pa.array(modified, texts.type))
