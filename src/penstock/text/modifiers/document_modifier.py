"""A modifier: a document in, the changed document out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.text.reported_name import Named


class DocumentModifier(Named):
    """Changes documents; write ``modify_document``, and give it to ``Modify``.

    It is given the value of the input field, or, of several input fields, their values by name. It never sees a null
    document: that stays null.

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
    """A modifier of texts that is shown the whole column and touches only documents that can change.

    ``could_change`` is a quick look that may let too much pass, never too little. Where Arrow has a function that does
    the work, ``modify_texts`` is overridden.

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
        """Tell of each document whether it might come out different."""
        return pc.is_valid(texts)

    def modify_texts(self, texts: pa.Array) -> pa.Array:
        """Return the changed documents; the very same array if none did."""
        suspects = pc.fill_null(self.could_change(texts), False)
        documents = texts.filter(suspects).to_pylist()
        modified = [self.modify_document(text) for text in documents]
        if modified == documents:
            return texts
        return pc.replace_with_mask(texts, suspects, pa.array(modified, texts.type))
