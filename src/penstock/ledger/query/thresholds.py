"""Find the parameters of a filter that are thresholds, and compute its verdicts with other thresholds."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import InputError
from penstock.ledger.store.rules import StageRule

_KEEP = "keep_document"
# Methods that do not compute the score.
_NOT_SCORING = ("__init__", _KEEP)


def load_decider(rule: StageRule) -> type:
    """Import the class that decided, by the module and name that the run recorded."""
    module, _, name = rule.decider.partition(":")
    if "" not in sys.path and "." not in sys.path:
        sys.path.append(".")  # finds the user's own classes in the current folder
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        hint = " It was defined in a script; define it in a module." if module == "__main__" else ""
        raise InputError(f"'{rule.label}': {rule.decider} cannot be imported here: {error}.{hint}") from error
    assert isinstance(found, type)
    return found


def threshold_names(decider: type) -> list[str]:
    """Return the parameters that influence the verdict but not the score.

    >>> from penstock.text import CommonEnglishWordsFilter, WordCountFilter
    >>> threshold_names(WordCountFilter), threshold_names(CommonEnglishWordsFilter)
    (['min_words', 'max_words'], [])
    """
    verdict, score = set[str](), set[str]()
    for cls in decider.__mro__[:-1]:
        for name, member in vars(cls).items():
            function = member.fget if isinstance(member, property) else member
            if name not in _NOT_SCORING and inspect.isfunction(function):
                score.update(_names(function.__code__))
    verdict.update(_names(getattr(decider, _KEEP).__code__) if hasattr(decider, _KEEP) else ())
    return [name for name in inspect.signature(decider).parameters if name in verdict - score]


def shown_parameters(rule: StageRule, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the thresholds of a verdict, or all numeric parameters if the thresholds cannot be determined."""
    parameters = {**recorded, **rule.parameters}
    try:
        names = threshold_names(load_decider(rule))
    except InputError:
        names = []
    if not names:
        names = [key for key, value in parameters.items() if isinstance(value, int | float) and key in recorded]
    return {name: parameters[name] for name in names if name in parameters}


def verdicts_with(
    rule: StageRule, changes: Mapping[str, Any], scores: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Return for each score whether the filter would keep the document with other parameters."""
    decider = load_decider(rule)
    taken = inspect.signature(decider).parameters
    given = {key: value for key, value in {**rule.parameters, **changes}.items() if key in taken}
    try:
        made = decider(**given)
    except (TypeError, ValueError) as error:
        raise InputError(f"'{rule.label}': {decider.__name__} does not accept these parameters: {error}") from error
    keep = getattr(made, _KEEP)
    known = ~np.isnan(scores)
    values, inverse = np.unique(scores[known], return_inverse=True)
    kept = np.zeros(len(scores), bool)
    kept[known] = _ask(keep, values)[inverse]
    if rule.invert:
        kept[known] ^= True
    return kept


def _ask(keep: Any, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:  # noqa: ANN401 - a bound method
    """Call the filter with the array of scores if it accepts one, else with each score."""
    try:
        answer = keep(values)
        if isinstance(answer, np.ndarray) and answer.dtype == bool and answer.shape == values.shape:
            return answer
    except (TypeError, ValueError):
        pass
    return np.array([bool(keep(value)) for value in values.tolist()], bool)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
