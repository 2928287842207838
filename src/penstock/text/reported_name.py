"""The name under which a filter or a modifier appears in tables, receipts and error messages."""

from __future__ import annotations

import warnings
from typing import Any, cast


class _ClassName:
    """Return the name of the class; the default of ``Named.name``."""

    def __get__(self, instance: object, owner: type) -> str:
        return owner.__name__


class Named:
    """Provide the class attribute ``name``, and accept ``_name``, its former spelling.

    Scripts written for NeMo Curator set ``_name``, on the class or on the object. It still works and warns.

    >>> class Loud(Named):
    ...     pass
    >>> class Quiet(Named):
    ...     name = "quiet"
    >>> Loud().name, Quiet().name
    ('Loud', 'quiet')
    """

    #: A subclass sets it as a class attribute, or as an attribute of the object where it depends on a parameter.
    name: str = cast(str, _ClassName())

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init_subclass__(**kwargs)
        former = vars(cls).get("_name")
        if isinstance(former, str):
            _warn(cls)
            del cls._name
            cls.name = former

    @property
    def _name(self) -> str:
        return self.name

    @_name.setter
    def _name(self, name: str) -> None:
        _warn(type(self))
        self.name = name


def _warn(cls: type) -> None:
    # The third frame is the class statement, or the assignment, that says _name.
    warnings.warn(f"{cls.__name__} sets _name. Write name instead.", DeprecationWarning, stacklevel=3)
