"""Filters for source code. Some need ``penstock[code]`` for a parser or a tokenizer."""

from __future__ import annotations

import ast
import csv
import io
import tokenize
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from penstock.errors import InputError, suggestion
from penstock.extras import require
from penstock.kernels.characters import PLAIN_CHARACTERS
from penstock.kernels.features import Features
from penstock.text.filters.document_filter import DocumentFilter, ScannedFilter
from penstock.text.filters.ratio import share

_PLAIN = frozenset(PLAIN_CHARACTERS)


class NumberOfLinesOfCodeFilter(ScannedFilter):
    """Keep files with ``min_lines`` to ``max_lines`` lines, blank ones included.

    An empty document scores 1.

    >>> NumberOfLinesOfCodeFilter().score_document("import os" + chr(10) + "os.abort()")
    2
    """

    name = "number_of_lines_of_code"

    def __init__(self, min_lines: int = 10, max_lines: int = 20000) -> None:
        self.min_lines = min_lines
        self.max_lines = max_lines

    def score_document(self, text: str) -> int:
        """Return the number of lines."""
        return text.count("\n") + 1

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return ("line_breaks",)

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the number of lines of each document."""
        return features["line_breaks"] + 1

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``min_lines <= score <= max_lines``."""
        return (score >= self.min_lines) & (score <= self.max_lines)


class AlphaFilter(ScannedFilter):
    """Drop files that contain tables or tensors and not code.

    The score is the share of characters that are letters of any alphabet. An empty document scores 0.

    >>> AlphaFilter().score_document("[1, 2]")
    0.0
    """

    name = "alpha"

    def __init__(self, min_alpha_ratio: float = 0.25) -> None:
        self.min_alpha_ratio = min_alpha_ratio

    def score_document(self, text: str) -> float:
        """Return the share of letters."""
        return share(sum(map(str.isalpha, text)), len(text), of_nothing=0.0)

    def features(self) -> tuple[str, ...]:
        """Return the names of the features that the score is computed from."""
        return "characters", "letters"

    def score_features(self, features: Features) -> Any:  # noqa: ANN401
        """Return the share of letters of each document."""
        return share(features["letters"], features["characters"], of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= min_alpha_ratio``."""
        return score >= self.min_alpha_ratio


class XMLHeaderFilter(DocumentFilter):
    """Drop files that are XML under another file extension.

    The score is 1 if there is an XML header in the first ``char_prefix_search_length`` characters, otherwise 0. An
    empty document scores 0.

    >>> XMLHeaderFilter().score_document('<?xml version="1.0"?>')
    1
    """

    name = "xml_header"

    def __init__(self, char_prefix_search_length: int = 100) -> None:
        self.char_prefix_search_length = char_prefix_search_length

    def score_document(self, text: str) -> int:
        """Return 1 if there is a header."""
        return int("<?xml version=" in text[: self.char_prefix_search_length])

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score != 1``."""
        return score != 1


class PythonCommentToCodeFilter(DocumentFilter):
    """Keep Python files with a moderate share of comments and docstrings.

    The score is the share of characters in comments and docstrings. A file that is not Python scores 0, and so does an
    empty document.

    >>> PythonCommentToCodeFilter().score_document("x = 1  # one")
    0.4166666666666667
    """

    name = "python_comment_to_code"

    def __init__(self, min_comment_to_code_ratio: float = 0.01, max_comment_to_code_ratio: float = 0.85) -> None:
        self.min_comment_to_code_ratio = min_comment_to_code_ratio
        self.max_comment_to_code_ratio = max_comment_to_code_ratio

    def score_document(self, text: str) -> float:
        """Return the share of comments and docstrings."""
        try:
            written = len(_docstrings(text)) + len(_comments(text))
        except (
            SyntaxError,
            ValueError,
            RecursionError,
            MemoryError,
        ):  # not Python
            return 0.0
        return share(written, len(text), of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``min_comment_to_code_ratio <= score <= max_comment_to_code_ratio``."""
        return self.min_comment_to_code_ratio <= score <= self.max_comment_to_code_ratio


def _docstrings(source: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # syntax warnings of the parser about the file
        tree = ast.parse(source)
    documented = (ast.ClassDef, ast.FunctionDef, ast.Module)
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented)]
    return "\n".join(docstring for docstring in found if docstring)


def _comments(source: str) -> str:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    try:
        # `untokenize` joins bare tokens with a blank after each.
        return tokenize.untokenize((kind, text) for kind, text, *_ in tokens if kind == tokenize.COMMENT)
    except tokenize.TokenError as error:
        raise ValueError(str(error)) from error


class GeneralCommentToCodeFilter(DocumentFilter):
    """Keep files with a moderate share of comments, in the language of a MIME type such as ``text/x-c``.

    The score is the share of characters in comments, without comment markers. A file that cannot be parsed in that
    language scores 9999, an empty document 0. Needs ``penstock[code]``.

    >>> comments = GeneralCommentToCodeFilter("text/x-c")  # doctest: +SKIP
    >>> comments.score_document("int x; // one")  # doctest: +SKIP
    0.3076923076923077
    """

    name = "general_comment_to_code"

    def __init__(
        self, language: str, min_comment_to_code_ratio: float = 0.01, max_comment_to_code_ratio: float = 0.85
    ) -> None:
        self.language = language
        self.min_comment_to_code_ratio = min_comment_to_code_ratio
        self.max_comment_to_code_ratio = max_comment_to_code_ratio
        known = _comment_parser().MIME_MAP
        if language not in known:
            raise ValueError(
                f"GeneralCommentToCodeFilter: no parser for language={language!r}; known are "
                f"{', '.join(sorted(known))}.{suggestion(language, known)}"
            )

    def score_document(self, text: str) -> float:
        """Return the share of comments."""
        parser = _comment_parser()
        try:
            comments = parser.extract_comments_from_str(text, mime=self.language)
        except parser.ParseError:
            return 9999
        return share(len(" ".join(comment.text() for comment in comments)), len(text), of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``min_comment_to_code_ratio <= score <= max_comment_to_code_ratio``."""
        return self.min_comment_to_code_ratio <= score <= self.max_comment_to_code_ratio


@cache
def _comment_parser() -> Any:  # noqa: ANN401 - a module without types
    return require("comment_parser.comment_parser", "code", "GeneralCommentToCodeFilter")


class TokenizerFertilityFilter(DocumentFilter):
    """Keep files that a SentencePiece tokenizer compresses well.

    The score is the number of characters per token. A document without tokens, such as an empty one, scores -1. Needs
    ``penstock[code]``.

    >>> TokenizerFertilityFilter("tokenizer.model", min_char_to_token_ratio=2.5).keep_document(3.1)
    True
    """

    name = "tokenizer_fertility"

    def __init__(self, path_to_tokenizer: str | None = None, min_char_to_token_ratio: float = 2.5) -> None:
        if path_to_tokenizer is None:
            raise ValueError("TokenizerFertilityFilter: path_to_tokenizer is the file of a SentencePiece model.")
        self.path_to_tokenizer = path_to_tokenizer
        self.min_char_to_token_ratio = min_char_to_token_ratio
        self._tokenizer: Any = None

    def load_tokenizer(self) -> None:
        """Read the model; the first document does so too."""
        if self._tokenizer is None:
            sentencepiece = require("sentencepiece", "code", "TokenizerFertilityFilter")
            if not Path(self.path_to_tokenizer).is_file():
                raise InputError(f"TokenizerFertilityFilter: file {self.path_to_tokenizer} does not exist.")
            self._tokenizer = sentencepiece.SentencePieceProcessor(model_file=self.path_to_tokenizer)

    def score_document(self, text: str) -> float:
        """Return the number of characters per token."""
        self.load_tokenizer()
        return share(len(text), len(self._tokenizer.encode(text)), of_nothing=-1.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= min_char_to_token_ratio``."""
        return score >= self.min_char_to_token_ratio


class HTMLBoilerplateFilter(DocumentFilter):
    """Drop pages that are mostly markup.

    The score is the share of characters in visible text; 0 if there are fewer than ``min_lang_content_num_chars`` of
    them, as in an empty document. Needs ``penstock[code]``.

    >>> HTMLBoilerplateFilter(min_lang_content_ratio=0.2).keep_document(0.05)
    False
    """

    name = "html_boilerplate"

    def __init__(self, min_lang_content_ratio: float = 0.2, min_lang_content_num_chars: int = 100) -> None:
        self.min_lang_content_ratio = min_lang_content_ratio
        self.min_lang_content_num_chars = min_lang_content_num_chars

    def score_document(self, text: str) -> float:
        """Return the share of visible text."""
        page = require("bs4", "code", "HTMLBoilerplateFilter").BeautifulSoup(text, features="html.parser")
        for hidden in page(["script", "style"]):
            hidden.extract()
        visible = len(page.get_text())
        if visible < self.min_lang_content_num_chars:
            return 0.0
        return share(visible, len(text), of_nothing=0.0)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score >= min_lang_content_ratio``."""
        return score >= self.min_lang_content_ratio


class PerExtensionFilter(DocumentFilter):
    """Keep files within the limits that a table sets for their language and extension.

    The table is a CSV file with the columns ``language``, ``extension``, ``Include``, ``Long_line_threshold``,
    ``Alphanum_threshold`` and ``Alpha filter``. The score is 1 within the limits, otherwise 0. A language and extension
    that the table does not list or include score 0. With a limit on characters an empty document scores 0.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pathlib.Path(folder, "code_meta.csv")
    ...     header = "language,extension,Include,Long_line_threshold,Alphanum_threshold,Alpha filter"
    ...     _ = table.write_text(header + chr(10) + "python,py,1,1000,0.25,0.25")
    ...     limits = PerExtensionFilter("python", "py", str(table))
    >>> limits.score_document("import os"), limits.score_document("0, 1, 2, 3")
    (1, 0)
    """

    name = "per_extension"

    def __init__(self, lang: str, extension: str, metadata_file: str = "code_meta.csv") -> None:
        self.lang = lang
        self.extension = extension
        self.metadata_file = metadata_file
        rows = _rows_of(metadata_file)
        language = {"C#": "c-sharp", "F#": "f-sharp"}.get(lang, lang.lower().replace(" ", "-"))
        if not any(row["language"] == lang or row["language"] == language for row in rows):
            raise ValueError(f"PerExtensionFilter: {metadata_file} does not list the language {lang!r}.")
        self._bounds = next(
            (row for row in rows if row["language"] == language and row["extension"] == (extension or "")), None
        )

    def score_document(self, text: str) -> int:
        """Return 1 within the bounds."""
        if self._bounds is None or self._bounds["Include"] != "1":
            return 0
        longest_line = _number(self._bounds["Long_line_threshold"])
        plain = _number(self._bounds["Alphanum_threshold"])
        letters = _number(self._bounds["Alpha filter"])
        lengths = [len(line) for line in text.split("\n")]
        if longest_line and (max(lengths) > longest_line or sum(lengths) / len(lengths) > 100):
            return 0
        if plain and share(sum(c in _PLAIN for c in text), len(text), of_nothing=0.0) < plain:
            return 0
        return int(not letters or share(sum(map(str.isalpha, text)), len(text), of_nothing=0.0) >= letters)

    def keep_document(self, score: float | None) -> bool:
        """Keep the document if the score is neither None nor 0."""
        return score is not None and score != 0


def _rows_of(path: str) -> list[dict[str, str]]:
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"PerExtensionFilter: cannot read the table {path}: {error}. Set metadata_file.") from error


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
