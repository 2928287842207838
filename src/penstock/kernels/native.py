"""How a function becomes machine code, and the few instructions that Numba has no name for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.caching import FunctionCache
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

from penstock.kernels.code_cache import code_cache

F = TypeVar("F", bound=Callable[..., Any])

# Its attributes come from the environment; the type checker cannot see them.
_config: Any = numba.config


def native(function: F) -> F:
    """Compile a function when it is first called, keep the code on disk, and let other threads run meanwhile."""
    dispatcher: Any = numba.njit(nogil=True)(function)
    folder = code_cache()
    if folder is None:
        return cast(F, dispatcher)
    _config.CACHE_DIR, before = str(folder), _config.CACHE_DIR
    try:
        cache_class: Any = _KeptCode
        dispatcher._cache = cache_class(function)  # what cache=True does, with a cache that loads faster
    finally:
        _config.CACHE_DIR = before
    return cast(F, dispatcher)


def prepare_to_load() -> None:
    """Make ready what loaded code may call: memory for its arrays. Otherwise the first function to be loaded does."""
    target: Any = cpu_target
    rtsys.initialize(target.target_context)


class _KeptCode(FunctionCache):
    """Machine code on disk, loaded without all that Numba needs to compile: a sixth of the time of a first call.

    When something has to be compiled after all, Numba's compiler loads that itself.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401
        """Return the code for a signature; None if there is none."""
        prepare_to_load()
        numbas: Any = self  # which says nothing of types
        try:
            with numbas._guard_against_spurious_io_errors():
                return numbas._load_overload(sig, target_context)
        except OSError:  # a cache that cannot be read costs time, and nothing else
            return None

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401
        """Keep the code for a signature, if that is possible."""
        with suppress(OSError):  # a full disk
            cast(Any, super()).save_overload(sig, data)


def is_compiled(function: Callable[..., Any]) -> bool:
    """Tell whether there is machine code of a function that this machine can run, in this process or on disk."""
    dispatcher: Any = function
    kept: Any = dispatcher._cache
    if code_cache() is None:
        return bool(dispatcher.signatures)
    # What belongs to an overload beside its signature: the processor, and what was compiled.
    _, *ours = kept._index_key(None, dispatcher.targetctx.codegen())
    return bool(dispatcher.signatures) or any([*theirs] == ours for _, *theirs in kept._cache_file._load_index())


def _load_u64(typing_context: Any, data: Any, index: Any) -> Any:  # noqa: ANN401 - Numba's own types
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(data, types.int64), generate


def _store_u64(typing_context: Any, data: Any, index: Any, word: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        store = builder.store(arguments[2], builder.bitcast(address, ir.IntType(64).as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


def _byte_at(typing_context: Any, data: Any, index: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte = builder.load(builder.gep(array.data, [arguments[1]]))
        return builder.zext(byte, ir.IntType(64))

    return types.int64(data, types.int64), generate


def _trailing_zeros(typing_context: Any, value: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.int64(types.uint64), generate


def _count_ones(typing_context: Any, value: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


# Eight bytes from anywhere in a byte array. The caller sees to it that they lie inside.
load_u64 = cast(Callable[[Any, int], np.uint64], intrinsic(_load_u64))
store_u64 = cast(Callable[[Any, int, np.uint64], None], intrinsic(_store_u64))
# One byte, without the look at its sign that makes data[-1] work.
byte_at = cast(Callable[[Any, int], int], intrinsic(_byte_at))
# Of a value that is not 0.
trailing_zeros = cast(Callable[[np.uint64], int], intrinsic(_trailing_zeros))
count_ones = cast(Callable[[np.uint64], int], intrinsic(_count_ones))
