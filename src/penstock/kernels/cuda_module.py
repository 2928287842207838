"""Compile CUDA C++ at run time for the GPU that is there, and launch it on torch's stream.

NVRTC and its bindings come with torch's CUDA wheels, so a user needs neither a compiler nor the CUDA toolkit.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from cuda.bindings import driver, nvrtc


class CudaKernel:
    """One kernel of a CUDA source file of this package."""

    def __init__(self, source: str, name: str, *, shared_bytes: int, defines: Sequence[str] = ()) -> None:
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the context that the module is loaded into
        major, minor = torch.cuda.get_device_capability()
        code = files("penstock.kernels").joinpath(source).read_text(encoding="utf-8")
        binary = _compile(code, source, [f"--gpu-architecture=sm_{major}{minor}", *(f"-D{name}" for name in defines)])
        self._module = _checked(driver.cuModuleLoadData(binary))
        self._function = _checked(driver.cuModuleGetFunction(self._module, name.encode()))
        self._shared_bytes = shared_bytes
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _checked(driver.cuFuncSetAttribute(self._function, attribute, shared_bytes))

    def launch(self, grid: tuple[int, int], threads: int, arguments: Sequence[np.generic | torch.Tensor]) -> None:
        """Launch it; tensors are passed as addresses, NumPy scalars as they are."""
        values = [np.uint64(part.data_ptr()) if isinstance(part, torch.Tensor) else part for part in arguments]
        cells = [np.array([value]) for value in values]
        addresses = np.array([cell.ctypes.data for cell in cells], dtype=np.uint64)
        stream = torch.cuda.current_stream().cuda_stream
        _checked(
            driver.cuLaunchKernel(
                self._function, *grid, 1, threads, 1, 1, self._shared_bytes, stream, addresses.ctypes.data, 0
            )
        )


def _compile(code: str, name: str, options: Sequence[str]) -> bytes:
    program = _checked(nvrtc.nvrtcCreateProgram(code.encode(), name.encode(), 0, [], []))
    encoded = [option.encode() for option in ("--std=c++17", *options)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"{name} does not compile for this GPU:\n{log.decode()}")
    binary = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
    nvrtc.nvrtcGetCUBIN(program, binary)
    return binary


def _checked(answer: tuple[Any, ...]) -> Any:  # noqa: ANN401 - whatever the driver returns
    """Return what a call of the driver or of NVRTC returned, or raise."""
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(f"{type(status).__name__}: {status.name}")
    return values[0] if values else None
