"""MinHash signatures on a GPU, equal bit for bit to those of the CPU.

Three kernels: where the last window of each document begins; the hash of the window at every byte (a byte inside a
character gets the window of that character, which changes no minimum); and the minima, with one program for 32
permutations of one stretch of a document. The minima take one multiply-add and one minimum per permutation and byte, and
nearly all of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
import triton
import triton.language as tl

from penstock.kernels.minhash import Permutations, Words
from penstock.kernels.polynomial import BASE, MIX_1, MIX_2
from penstock.kernels.shingles import Shingling
from penstock.kernels.text_buffer import text_buffer

# Bytes that go to the device at once, while the ones before are being worked on.
_PIECE = 128 << 20
# The most bytes one program takes: a longer document is shared by several.
_STRETCH = 1 << 15
_POSITIONS = 128
_GROUP = 32


def _signed(value: int) -> int:
    """Return a 64-bit constant as Triton takes it: the same bits, with a sign."""
    return value - 2**64 if value >= 2**63 else value


@triton.jit
def _limits(data, offsets, limits, width, reach: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Find where the last window of a document begins: the last place with ``width`` characters from there on."""
    row = tl.program_id(0)
    start = tl.load(offsets + row)
    stop = tl.load(offsets + row + 1)
    back = stop - 1 - tl.arange(0, reach).to(tl.int64)
    byte = tl.load(data + back, mask=back >= start, other=0x80)
    chars = tl.cumsum(((byte & 0xC0) != 0x80).to(tl.int32), 0)
    # The characters counted from the end: the first place where there are enough of them.
    begins = tl.max(tl.where(chars >= width, back, -1), 0)
    tl.store(limits + row, tl.where(begins >= start, begins + 1, start))


@triton.jit
def _extended(value, byte, base):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return value * base + byte.to(tl.int64) + 1


@triton.jit
def _windows(  # type: ignore[no-untyped-def]  # noqa: ANN202
    data,
    hashes,
    size,
    base,
    mix_1,
    mix_2,
    width: tl.constexpr,
    shift: tl.constexpr,
    block: tl.constexpr,  # noqa: ANN001
):
    """Hash the window of characters that begins at every byte, or at the beginning of the character the byte is in."""
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < size
    begin = place
    for _ in tl.static_range(3):
        byte = tl.load(data + begin, mask=inside & (begin > 0), other=0)
        begin = tl.where((byte & 0xC0) == 0x80, begin - 1, begin)
    value = tl.zeros([block], tl.int64)
    chars = tl.zeros([block], tl.int32)
    at = begin
    for _ in tl.static_range(width):
        byte = tl.load(data + at, mask=at < size, other=0)
        chars += ((byte & 0xC0) != 0x80).to(tl.int32)
        value = _extended(value, byte, base)
        at += 1
    # With ASCII only this is all; otherwise go on until as many characters have ended as have begun.
    byte = tl.load(data + at, mask=at < size, other=0)
    active = (chars < width) | ((byte & 0xC0) == 0x80)
    while tl.max(active.to(tl.int32), 0) > 0:
        chars += (active & ((byte & 0xC0) != 0x80)).to(tl.int32)
        value = tl.where(active, _extended(value, byte, base), value)
        at += 1
        byte = tl.load(data + at, mask=at < size, other=0)
        active = active & (at < size) & ((chars < width) | ((byte & 0xC0) == 0x80))
    bits = value.to(tl.uint64, bitcast=True)
    bits = bits ^ (bits >> 33)
    bits = (bits.to(tl.int64, bitcast=True) * mix_1).to(tl.uint64, bitcast=True)
    bits = bits ^ (bits >> 33)
    bits = (bits.to(tl.int64, bitcast=True) * mix_2).to(tl.uint64, bitcast=True)
    bits = bits ^ (bits >> 33)
    tl.store(hashes + place, (bits >> shift).to(hashes.dtype.element_ty), mask=inside)


@triton.jit
def _minima(  # type: ignore[no-untyped-def]  # noqa: ANN202
    hashes, starts, stops, rows, a, b, signature, count, first, most: tl.constexpr, group: tl.constexpr,  # noqa: ANN001
    positions: tl.constexpr
):  # fmt: skip
    """Lower a group of numbers of a signature by the hashes of one stretch."""
    stretch = tl.program_id(0)
    start = tl.load(starts + stretch)
    stop = tl.load(stops + stretch)
    if start < stop:
        numbers = first + tl.program_id(1) * group + tl.arange(0, group)
        factor = tl.load(a + numbers)[None, :]
        term = tl.load(b + numbers)[None, :]
        least = tl.full([positions, group], most, hashes.dtype.element_ty)
        whole = start + (stop - start) // positions * positions
        for at in range(start, whole, positions):
            place = at + tl.arange(0, positions)
            least = tl.minimum(least, tl.load(hashes + place)[:, None] * factor + term)
        # The last few: those past the end take the hash of the first, which changes no minimum.
        if whole < stop:
            place = whole + tl.arange(0, positions)
            place = tl.where(place < stop, place, start)
            least = tl.minimum(least, tl.load(hashes + place)[:, None] * factor + term)
        row = tl.load(rows + stretch).to(tl.int64)
        tl.atomic_min(signature + row * count + numbers, tl.min(least, 0), sem="relaxed")


class GpuMinHash:
    """Makes signatures on one device; the constants are there once."""

    def __init__(self, shingling: Shingling, chosen: Permutations, device: str = "cuda") -> None:
        if shingling.unit != "char":
            raise ValueError("signatures on a GPU are of characters; shingles of words are made on the CPU.")
        self._width = shingling.width
        self._dtype = torch.uint32 if chosen.a.dtype == np.uint32 else torch.uint64
        self._numpy = chosen.a.dtype
        self._count = chosen.count
        self._device = device
        self._a, self._b = (torch.from_numpy(values.copy()).to(device) for values in (chosen.a, chosen.b))
        self._copies = torch.cuda.Stream(device)

    def signatures(self, texts: pa.Array) -> tuple[Words, npt.NDArray[np.bool_]]:
        """Return the signature of every text, and whether it has any shingle, as the CPU would."""
        data, offsets = text_buffer(texts)
        signature = np.empty((len(texts), self._count), dtype=self._numpy)
        has_shingles = np.empty(len(texts), dtype=np.bool_)
        for rows, (made, shingled) in self._pieces(data, offsets):
            signature[rows] = made.cpu().numpy()
            has_shingles[rows] = shingled.cpu().numpy()
        return signature, has_shingles

    def on_device(self, data: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return signatures of texts that are on the device already, and leave them there."""
        rows, size = len(offsets) - 1, len(data)
        signature = torch.empty((rows, self._count), dtype=self._dtype, device=self._device)
        signature.view(torch.uint8).fill_(255)
        limits = torch.empty(rows, dtype=torch.int64, device=self._device)
        starts = offsets[:-1]
        if rows == 0 or size == 0:
            return signature, torch.zeros(rows, dtype=torch.bool, device=self._device)
        _limits[(rows,)](data, offsets, limits, self._width, triton.next_power_of_2(4 * self._width))
        hashes = torch.empty(size, dtype=self._dtype, device=self._device)
        shift, most = (32, 2**32 - 1) if self._dtype is torch.uint32 else (0, 2**64 - 1)
        block = 512
        _windows[(triton.cdiv(size, block),)](
            data, hashes, size, _signed(BASE), _signed(MIX_1), _signed(MIX_2), self._width, shift, block, num_warps=4
        )
        work = self._stretches(starts, limits)
        whole = self._count // _GROUP
        rest = self._count - whole * _GROUP
        arguments = (hashes, *work, self._a, self._b, signature, self._count)
        if whole:
            _minima[(len(work[0]), whole)](*arguments, 0, most, _GROUP, _POSITIONS, num_warps=4)
        for bit in (16, 8, 4, 2, 1):
            if rest & bit:
                first = whole * _GROUP + (rest & ~(2 * bit - 1))
                _minima[(len(work[0]), 1)](*arguments, first, most, bit, _POSITIONS, num_warps=4)
        return signature, limits > starts

    def _stretches(self, starts: torch.Tensor, limits: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Cut long documents into stretches that are worked on side by side."""
        lengths = limits - starts
        rows = torch.arange(len(starts), device=self._device)
        if int(lengths.max()) <= _STRETCH:
            return starts.contiguous(), limits, rows
        parts = torch.clamp((lengths + _STRETCH - 1) // _STRETCH, min=1)
        rows = torch.repeat_interleave(rows, parts)
        within = torch.arange(len(rows), device=self._device) - (torch.cumsum(parts, 0) - parts)[rows]
        begins = starts[rows] + within * _STRETCH
        return begins, torch.minimum(begins + _STRETCH, limits[rows]), rows

    def _pieces(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Iterator[Any]:
        """Work on a piece while the next one is on its way to the device."""
        ahead: list[Any] = []
        for rows in _cut(offsets):
            begin, end = int(offsets[rows.start]), int(offsets[rows.stop])
            host = torch.empty(end - begin, dtype=torch.uint8, pin_memory=True)
            host.numpy()[:] = data[begin:end]
            borders = torch.from_numpy(offsets[rows.start : rows.stop + 1] - begin).pin_memory()
            with torch.cuda.stream(self._copies):
                copied = host.to(self._device, non_blocking=True), borders.to(self._device, non_blocking=True)
            ahead.append((rows, copied, self._copies.record_event()))
            if len(ahead) > 1:
                yield self._finish(*ahead.pop(0))
        for piece in ahead:
            yield self._finish(*piece)

    def _finish(self, rows: slice, copied: tuple[torch.Tensor, torch.Tensor], arrived: Any) -> Any:  # noqa: ANN401
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(arrived)
        for tensor in copied:
            tensor.record_stream(stream)
        return rows, self.on_device(*copied)


def _cut(offsets: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Cut documents into pieces of some size; a document is never cut."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + _PIECE, side="right")) - 1
        last = min(max(last, first + 1), len(offsets) - 1)
        yield slice(first, last)
        first = last
