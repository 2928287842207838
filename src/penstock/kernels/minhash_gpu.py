"""MinHash signatures on a GPU, equal bit for bit to those of the CPU.

Three steps: where the last window of each document begins; the hash of the window at every byte (a byte inside a
character gets the window of that character, which changes no minimum); and the minima, with one program for 32
permutations of one stretch of a document. The minima take one multiply-add and one minimum per permutation and byte,
and most of the time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
import triton

from penstock.kernels import minhash_triton as kernels
from penstock.kernels.minhash import Permutations, Words
from penstock.kernels.polynomial import BASE, MIX_1, MIX_2
from penstock.kernels.shingles import Shingling
from penstock.kernels.text_buffer import text_buffer

# Bytes copied to the device at a time, while the previous ones are processed.
_PIECE = 64 << 20
# The maximum number of bytes per program: a longer document is split among several.
_STRETCH = 1 << 15
_POSITIONS = 128
_GROUP = 32
_BLOCK = 512


class GpuMinHash:
    """Compute signatures on one device; constants and copy buffers are allocated once."""

    def __init__(self, shingling: Shingling, chosen: Permutations, device: str = "cuda") -> None:
        if shingling.unit != "char":
            raise ValueError("signatures on a GPU are of characters; shingles of words are made on the CPU.")
        self._width = shingling.width
        self._dtype = torch.uint32 if chosen.a.dtype == np.uint32 else torch.uint64
        self._numpy = chosen.a.dtype
        self._count = chosen.count
        self._device = device
        self._a, self._b = (torch.from_numpy(values.copy()).to(device) for values in (chosen.a, chosen.b))
        self._copies, self._copies_back = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self._staging = [torch.empty(0, dtype=torch.uint8), torch.empty(0, dtype=torch.uint8)]
        self._free = [torch.cuda.Event(), torch.cuda.Event()]

    def signatures(self, texts: pa.Array) -> tuple[Words, npt.NDArray[np.bool_]]:
        """Return the signature of every text, and whether it has a shingle; equal to the CPU's result."""
        data, offsets = text_buffer(texts)
        signature, shingled = self.from_host(_tensor(data), _tensor(offsets))
        return signature.numpy(), shingled.numpy()

    def from_host(self, data: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return signatures of texts in host memory; copies overlap with computation.

        Pinned memory is copied directly; other memory is copied through two pinned buffers.
        """
        rows = len(offsets) - 1
        signature = torch.empty((rows, self._count), dtype=self._dtype, pin_memory=True)
        shingled = torch.empty(rows, dtype=torch.bool, pin_memory=True)
        for part, made, has_any in self._pieces(data, offsets):
            self._copies_back.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(self._copies_back):
                signature[part].copy_(made, non_blocking=True)
                shingled[part].copy_(has_any, non_blocking=True)
            made.record_stream(self._copies_back)
            has_any.record_stream(self._copies_back)
        self._copies_back.synchronize()
        return signature, shingled

    def on_device(self, data: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return signatures of texts that are on the device already, and leave them there."""
        return self._signatures(data, offsets, _stretches(offsets.cpu().numpy()))

    def _signatures(
        self, data: torch.Tensor, offsets: torch.Tensor, stretches: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows, size = len(offsets) - 1, len(data)
        signature = torch.empty((rows, self._count), dtype=self._dtype, device=self._device)
        signature.view(torch.uint8).fill_(255)
        starts = offsets[:-1].contiguous()
        if rows == 0 or size == 0:
            return signature, torch.zeros(rows, dtype=torch.bool, device=self._device)
        limits = torch.empty(rows, dtype=torch.int64, device=self._device)
        kernels.limits_kernel[(rows,)](data, offsets, limits, self._width, triton.next_power_of_2(4 * self._width))
        hashes = self._hashes(data)
        most = 2**32 - 1 if self._dtype is torch.uint32 else 2**64 - 1
        row_of, within = (part.to(self._device, non_blocking=True) for part in stretches)
        begins = starts[row_of] + within
        work = begins, torch.minimum(begins + _STRETCH, limits[row_of]), row_of
        arguments = (hashes, *work, self._a, self._b, signature, self._count)
        whole = self._count // _GROUP
        rest = self._count - whole * _GROUP
        if whole:
            kernels.minima_kernel[(len(work[0]), whole)](*arguments, 0, most, _GROUP, _POSITIONS, num_warps=4)
        for bit in (16, 8, 4, 2, 1):
            if rest & bit:
                first = whole * _GROUP + (rest & ~(2 * bit - 1))
                kernels.minima_kernel[(len(work[0]), 1)](*arguments, first, most, bit, _POSITIONS, num_warps=4)
        return signature, limits > starts

    def _hashes(self, data: torch.Tensor) -> torch.Tensor:
        """Return the hash of the window at every byte."""
        size = len(data)
        grid = (triton.cdiv(size, _BLOCK),)
        eights = torch.empty(size, dtype=torch.int64, device=self._device)
        kernels.eights_kernel[grid](data, eights, size, _signed(BASE), _BLOCK, num_warps=4)
        hashes = torch.empty(size, dtype=self._dtype, device=self._device)
        kernels.windows_kernel[grid](
            data, eights, hashes, size, _signed(BASE), _signed(pow(BASE, 8, 2**64)), _signed(MIX_1), _signed(MIX_2),
            self._width, 32 if self._dtype is torch.uint32 else 0, _BLOCK, num_warps=4,
        )  # fmt: skip
        return hashes

    def _pieces(self, data: torch.Tensor, offsets: torch.Tensor) -> Iterator[Any]:
        """Process one piece while the next is copied to the device."""
        ahead: list[Any] = []
        borders = offsets if offsets.is_pinned() else offsets.pin_memory()
        numbers = offsets.numpy()
        for number, part in enumerate(_cut(numbers)):
            begin, end = int(numbers[part.start]), int(numbers[part.stop])
            host = data[begin:end] if data.is_pinned() else self._staged(number % 2, data[begin:end])
            with torch.cuda.stream(self._copies):
                text = host.to(self._device, non_blocking=True)
                shifted = borders[part.start : part.stop + 1].to(self._device, non_blocking=True) - begin
                self._free[number % 2].record(self._copies)
                stretches = _stretches(numbers[part.start : part.stop + 1])
                ahead.append((part, (text, shifted), stretches, self._copies.record_event()))
            if len(ahead) > 1:
                yield self._worked_on(*ahead.pop(0))
        for piece in ahead:
            yield self._worked_on(*piece)

    def _staged(self, which: int, data: torch.Tensor) -> torch.Tensor:
        """Copy into pinned memory after its previous content was transferred."""
        self._free[which].synchronize()
        if len(self._staging[which]) < len(data):
            self._staging[which] = torch.empty(max(_PIECE, len(data)), dtype=torch.uint8, pin_memory=True)
        return self._staging[which][: len(data)].copy_(data)

    def _worked_on(self, part: slice, copied: Any, stretches: Any, arrived: Any) -> Any:  # noqa: ANN401
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(arrived)
        for tensor in copied:
            tensor.record_stream(stream)
        text, borders = copied
        return part, *self._signatures(text, borders, stretches)


def _tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    """View an array as a tensor, without torch's warning that the array is read-only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def _stretches(offsets: npt.NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    """Split long documents into stretches that are processed in parallel: the document and first byte of each."""
    parts = np.maximum(1, -(-np.diff(offsets) // _STRETCH))
    row_of = np.repeat(np.arange(len(parts)), parts)
    within = np.arange(len(row_of)) - np.repeat(np.cumsum(parts) - parts, parts)
    return torch.from_numpy(row_of).pin_memory(), torch.from_numpy(within * _STRETCH).pin_memory()


def _signed(value: int) -> int:
    """Return a 64-bit constant with the same bits as a signed integer, as Triton requires."""
    return value - 2**64 if value >= 2**63 else value


def _cut(offsets: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Group documents into pieces of some size; a document is never split."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + _PIECE, side="right")) - 1
        last = min(max(last, first + 1), len(offsets) - 1)
        yield slice(first, last)
        first = last
