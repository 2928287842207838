"""Compile functions to machine code with Numba, and provide the instructions that Numba lacks."""

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
    """Compile a function on its first call, cache the code on disk, and release the GIL while it runs."""
    dispatcher: Any = numba.njit(nogil=True)(function)
    folder = code_cache()
    if folder is None:
        return cast(F, dispatcher)
    _config.CACHE_DIR, before = str(folder), _config.CACHE_DIR
    try:
        cache_class: Any = _KeptCode
        dispatcher._cache = cache_class(function)  # as cache=True does, with a cache that loads faster
    finally:
        _config.CACHE_DIR = before
    return cast(F, dispatcher)


def prepare_to_load() -> None:
    """Prepare the memory allocator that loaded code may call; otherwise the first loaded function would do so."""
    target: Any = cpu_target
    rtsys.initialize(target.target_context)


class _KeptCode(FunctionCache):
    """Cache of machine code, loaded without initialising Numba's compiler: a sixth of the time of a first call.

    When something has to be compiled after all, Numba's compiler loads that itself.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401
        """Return the code for a signature; None if there is none."""
        prepare_to_load()
        numbas: Any = self  # untyped
        try:
            with numbas._guard_against_spurious_io_errors():
                return numbas._load_overload(sig, target_context)
        except OSError:  # a cache that cannot be read only costs time
            return None

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401
        """Keep the code for a signature, if that is possible."""
        with suppress(OSError):  # a full disk
            cast(Any, super()).save_overload(sig, data)


def is_compiled(function: Callable[..., Any]) -> bool:
    """Return True if machine code for this machine exists for a function, in this process or on disk."""
    dispatcher: Any = function
    kept: Any = dispatcher._cache
    if code_cache() is None:
        return bool(dispatcher.signatures)
    # The rest of the key of an overload: the processor, and the compiled function.
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


# Load eight bytes from anywhere in a byte array. The caller ensures that they are inside the array.
load_u64 = cast(Callable[[Any, int], np.uint64], intrinsic(_load_u64))
store_u64 = cast(Callable[[Any, int, np.uint64], None], intrinsic(_store_u64))
# Load one byte, without the sign check of the index that makes data[-1] work.
byte_at = cast(Callable[[Any, int], int], intrinsic(_byte_at))
# For a value that is not 0.
trailing_zeros = cast(Callable[[np.uint64], int], intrinsic(_trailing_zeros))
count_ones = cast(Callable[[np.uint64], int], intrinsic(_count_ones))
