"""Pickling classes and functions by value: those that are defined in a script or a notebook, which no worker imports.

cloudpickle sends the definition of such a class along and finds the class again in a process that has it. There it
also assigns every attribute again, so that the methods of the user's own class would be replaced by copies that see
copies of the user's globals. Here a class that a process has already is left as it is.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import cloudpickle

# Classes that are whole in this process: sent from here, or received here before.
_whole: WeakSet[type] = WeakSet()
# What cloudpickle reduces a class to: how to make it, with what, its attributes, two iterators, how to assign them.
_REDUCED_CLASS = 6


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
        if not isinstance(value, type) or not isinstance(reduced, tuple) or len(reduced) != _REDUCED_CLASS:
            return reduced
        _whole.add(value)
        make, arguments, attributes, _, _, assign = reduced
        return make, arguments, (assign, attributes), None, None, _assign_once


def _assign_once(made: type, state: tuple[Callable[[type, Any], Any], Any]) -> type:
    """Complete a class that has just been made; one that this process has already stays as it is."""
    if made not in _whole:
        assign, attributes = state
        assign(made, attributes)
        _whole.add(made)
    return made
