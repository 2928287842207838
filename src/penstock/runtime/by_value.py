"""Pickle classes and functions of a script or notebook by value, because workers cannot import them.

cloudpickle includes the definition of such a class in the pickle, and reuses the class in a process that has it. There
it also assigns every attribute again, which would replace the methods of the user's own class by copies that refer to
copies of the user's globals. Here a class that the process has already is not changed.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import cloudpickle

# Classes that are complete in this process: pickled here, or unpickled here before.
_complete_classes: WeakSet[type] = WeakSet()
# Length of the tuple that cloudpickle reduces a class to: constructor, arguments, state, two iterators, state setter.
_REDUCED_CLASS_LENGTH = 6


def dumps(value: Any, buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:  # noqa: ANN401
    """Pickle a value with the definitions of all classes and functions in it that cannot be imported.

    The result is read by ``pickle.loads``. Raise what cloudpickle raises if the value cannot be pickled.
    """
    with io.BytesIO() as stream:
        _Pickler(stream, protocol=5, buffer_callback=buffer_callback).dump(value)
        return stream.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # has no types
    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401 - anything can be pickled
        reduced = super().reducer_override(value)
        if not isinstance(value, type) or not isinstance(reduced, tuple) or len(reduced) != _REDUCED_CLASS_LENGTH:
            return reduced
        _complete_classes.add(value)
        make, arguments, attributes, _, _, assign = reduced
        return make, arguments, (assign, attributes), None, None, _assign_once


def _assign_once(made: type, state: tuple[Callable[[type, Any], Any], Any]) -> type:
    """Assign the attributes of a new class; do not change one that is complete in this process."""
    if made not in _complete_classes:
        assign, attributes = state
        assign(made, attributes)
        _complete_classes.add(made)
    return made
