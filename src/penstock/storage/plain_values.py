"""Serialise Python values without pickle: reading the bytes runs no code, so their source need not be trusted.

Supported are the plain types of Python, paths, NumPy arrays and Arrow tables. A value is restored with its type: a
tuple as a tuple, and text that is not valid Unicode, such as a file name, unchanged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1
_COLLECTIONS: dict[str, type[Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class NotPlain(TypeError):  # noqa: N818 - not for users: caught where values are stored
    """A value is of a type that cannot be stored without pickle."""


class DamagedValue(ValueError):  # noqa: N818 - caught where values are read
    """The bytes are not a value written by this module."""


def dump(value: Any) -> bytes:  # noqa: ANN401 - decided here
    """Serialise a value; raise ``NotPlain`` if it contains a type that is not supported."""
    return msgspec.msgpack.encode(_tagged(value))


def load(data: bytes) -> Any:  # noqa: ANN401 - whatever it was
    """Deserialise a value; raise ``DamagedValue`` if the bytes are not a serialised value.

    >>> load(dump({"part": (0, 10), "name": "b\\udcff"}))
    {'part': (0, 10), 'name': 'b\\udcff'}
    """
    try:
        return _value(msgspec.msgpack.decode(data))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, pa.ArrowException) as error:
        raise DamagedValue(f"not a stored value: {type(error).__name__}: {error}") from error


def _tagged(value: Any) -> Any:  # noqa: ANN401
    """Return a value that msgpack can encode: numbers, text and bytes as they are, others as a list with a type tag."""
    kind = type(value)
    if value is None or kind in (bool, float, bytes) or (kind is int and _SMALLEST <= value <= _LARGEST):
        return value
    if kind is int:
        return ["int", hex(value)]
    if kind is str:
        return value if value.isascii() or _is_unicode(value) else ["str", value.encode("utf-8", "surrogatepass")]
    if kind in _COLLECTIONS.values():
        return [kind.__name__, [_tagged(part) for part in value]]
    if kind is dict:
        return ["dict", [[_tagged(key), _tagged(part)] for key, part in value.items()]]
    if isinstance(value, np.ndarray | np.generic) and kind.__module__ == "numpy" and not value.dtype.hasobject:
        shape = list(value.shape) if isinstance(value, np.ndarray) else None
        return ["numpy", np.lib.format.dtype_to_descr(value.dtype), shape, value.tobytes()]
    if kind is pa.Table:
        return ["arrow", table_to_bytes(value)]
    if isinstance(value, Path):
        return ["path", _tagged(str(value))]
    raise NotPlain(f"a {kind.__module__}.{kind.__qualname__}")


def _value(tagged: Any) -> Any:  # noqa: ANN401
    if not isinstance(tagged, list):
        if isinstance(tagged, dict):
            raise DamagedValue("a bare dictionary")
        return tagged
    kind, *rest = tagged
    match kind, rest:
        case (("list" | "tuple" | "set" | "frozenset"), [list(parts)]):
            return _COLLECTIONS[kind](_value(part) for part in parts)
        case "dict", [list(pairs)]:
            return {_value(key): _value(part) for key, part in pairs}
        case "int", [str(digits)]:
            return int(digits, 16)
        case "str", [bytes(encoded)]:
            return encoded.decode("utf-8", "surrogatepass")
        case "path", [text]:
            return Path(_value(text))
        case "arrow", [bytes(stored)]:
            return table_from_bytes(stored)
        case "numpy", [described, shape, bytes(stored)]:
            array = np.frombuffer(stored, np.dtype(_dtype(described)))
            return array[0] if shape is None else array.reshape(shape).copy()
    raise DamagedValue(f"an unknown kind of value: {kind!r:.50}")


def _dtype(described: Any) -> Any:  # noqa: ANN401
    """Return the description of a dtype with tuples restored; msgpack turns tuples into lists."""
    if isinstance(described, str):
        return described
    return [tuple(_dtype(part) if isinstance(part, list) else part for part in field) for field in described]


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def table_to_bytes(table: pa.Table) -> bytes:
    """Serialise an Arrow table in the Arrow IPC stream format."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    data: bytes = stream.getvalue().to_pybytes()
    return data


def table_from_bytes(data: bytes) -> pa.Table:
    """Deserialise an Arrow table from the Arrow IPC stream format, and validate it fully."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table
