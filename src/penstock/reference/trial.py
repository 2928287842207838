"""Make an instance of a class and try it: what columns a stage needs and adds, what an empty document scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from penstock.errors import PenstockError

# Arguments for classes that cannot be made without any. Nothing is read: they only have to be accepted.
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "AddId": {"id_field": "id"},
    "CommonCrawlDownloadExtractStage": {"start_snapshot": "2024-10", "end_snapshot": "2024-18", "download_dir": "x"},
    "DocumentDownloadStage": {"downloader": None},
    "DocumentSplitter": {"separator": "\n\n"},
    "FilePartitioningStage": {"file_paths": "crawl/"},
    "Filter": {"filter_fn": str.isalpha, "filter_field": "score"},
    "ForbiddenTextFilter": {"substring": "lorem ipsum"},
    "GeneralCommentToCodeFilter": {"language": "text/x-c"},
    "JsonlReader": {"file_paths": "crawl/"},
    "JsonlWriter": {"path": "clean/"},
    "MegatronTokenizerWriter": {"path": "clean/", "model_identifier": "tokenizer.json"},
    "Modify": {"modifier_fn": str.strip},
    "ParquetReader": {"file_paths": "crawl/"},
    "ParquetWriter": {"path": "clean/"},
    "Score": {"score_fn": len, "score_field": "score"},
    "SubstringFilter": {"substring": "x", "position": "any"},
    "URLGenerationStage": {"url_generator": None},
    "WarcReader": {"file_paths": "crawl/"},
}


@dataclass(frozen=True)
class Columns:
    """The task types a stage takes and returns, and the columns it needs and adds; None where they depend."""

    takes: str
    returns: str
    needed: tuple[str, ...] | None
    added: tuple[str, ...] | None


@dataclass(frozen=True)
class EmptyScore:
    """What an empty document scores, and whether it is kept with the default parameters."""

    score: str
    is_kept: bool
    arguments: str


def columns_of(stage_class: Any) -> Columns:  # noqa: ANN401 - a stage class
    """Return what a stage takes and returns.

    >>> from penstock.text import AddId
    >>> columns_of(AddId)
    Columns(takes='DocumentBatch', returns='DocumentBatch', needed=(), added=('id',))
    """
    takes, returns = (getattr(kind, "__name__", str(kind)) for kind in task_types(stage_class))
    try:
        stage = _instance(stage_class)
        inputs, outputs = stage.inputs(), stage.outputs()
    except (TypeError, NotImplementedError, IndexError, PenstockError):
        return Columns(takes, returns, None, None)
    specs = list(inputs.values()) if isinstance(inputs, dict) else [inputs]
    return Columns(takes, returns, tuple(column for _, columns in specs for column in columns), tuple(outputs[1]))


def task_types(stage_class: Any) -> tuple[Any, Any]:  # noqa: ANN401 - a stage class
    """Return the two task types that a stage class states."""
    types: tuple[Any, Any] = object.__new__(stage_class).task_types()
    return types


def score_of_empty(filter_class: Any) -> EmptyScore | None:  # noqa: ANN401 - a filter class
    """Score an empty document; None where the filter needs a model, a file or an extra that is not here.

    >>> from penstock.text import WordCountFilter
    >>> score_of_empty(WordCountFilter)
    EmptyScore(score='0', is_kept=False, arguments='')
    """
    try:
        made = _instance(filter_class)
        made.model_check_or_download()
        made.load_model()
        score = made.score_document("")
    except (TypeError, ValueError, NotImplementedError, OSError, PenstockError):
        return None
    given = ", ".join(f"{key}={value!r}" for key, value in _ARGUMENTS.get(filter_class.__name__, {}).items())
    return EmptyScore(_shown(score), bool(made.keep_document(score)), given)


def _instance(cls: Any) -> Any:  # noqa: ANN401 - an instance of that class
    from penstock.text import WordCountFilter

    if cls.__name__ == "ScoreFilter":
        return cls(WordCountFilter())
    return cls(**_ARGUMENTS.get(cls.__name__, {}))


def _shown(score: Any) -> str:  # noqa: ANN401 - whatever a filter returns
    if isinstance(score, float) and math.isfinite(score) and score == int(score):
        return str(int(score))
    return str(score)
