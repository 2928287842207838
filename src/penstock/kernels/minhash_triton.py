"""Triton kernels for signatures on a GPU.

A hash of a window is a polynomial over its bytes (see ``polynomial``). Of ASCII it is put together from polynomials
over eight bytes, which are made once for every place; only blocks with other characters walk through their windows.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def limits_kernel(data, offsets, limits, width, reach: tl.constexpr):
    """Find the start of the last window of a document: the last position followed by ``width`` characters."""
    row = tl.program_id(0)
    start = tl.load(offsets + row)
    stop = tl.load(offsets + row + 1)
    back = stop - 1 - tl.arange(0, reach).to(tl.int64)
    byte = tl.load(data + back, mask=back >= start, other=0x80)
    chars = tl.cumsum(((byte & 0xC0) != 0x80).to(tl.int32), 0)
    # Characters counted from the end: the first position with enough of them.
    begins = tl.max(tl.where(chars >= width, back, -1), 0)
    tl.store(limits + row, tl.where(begins >= start, begins + 1, start))


@triton.jit
def eights_kernel(data, eights, size, base, block: tl.constexpr):
    """Write the polynomial over the eight bytes from each position."""
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    value = tl.zeros([block], tl.int64)
    for k in tl.static_range(8):
        byte = tl.load(data + place + k, mask=place + k < size, other=0)
        value = value * base + byte.to(tl.int64) + 1
    tl.store(eights + place, value, mask=place < size)


@triton.jit
def windows_kernel(
    data, eights, hashes, size, base, base_8, mix_1, mix_2,
    width: tl.constexpr, shift: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Hash the window of characters that begins at every byte, or at the beginning of the character the byte is in."""
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < size
    reach: tl.constexpr = triton.next_power_of_2(block + width)
    around = tl.program_id(0).to(tl.int64) * block + tl.arange(0, reach)
    looked_at = tl.load(data + around, mask=(around < size) & (tl.arange(0, reach) < block + width), other=0)
    value = tl.zeros([block], tl.int64)
    if tl.max(looked_at.to(tl.int32), 0) < 128:
        for k in tl.static_range(width // 8):
            value = value * base_8 + tl.load(eights + place + 8 * k, mask=place + 8 * k < size, other=0)
        for k in tl.static_range(width - width % 8, width):
            byte = tl.load(data + place + k, mask=place + k < size, other=0)
            value = value * base + byte.to(tl.int64) + 1
    else:
        at = place
        for _ in tl.static_range(3):
            byte = tl.load(data + at, mask=inside & (at > 0), other=0)
            at = tl.where((byte & 0xC0) == 0x80, at - 1, at)
        chars = tl.zeros([block], tl.int32)
        byte = tl.load(data + at, mask=at < size, other=0)
        active = inside
        # A window is complete when ``width`` characters have begun and the next one begins.
        while tl.max(active.to(tl.int32), 0) > 0:
            chars += (active & ((byte & 0xC0) != 0x80)).to(tl.int32)
            value = tl.where(active, value * base + byte.to(tl.int64) + 1, value)
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
def minima_kernel(
    hashes, starts, stops, rows, a, b, signature, count, first,
    most: tl.constexpr, group: tl.constexpr, positions: tl.constexpr,
):  # fmt: skip
    """Update a group of minima of a signature with the hashes of one stretch."""
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
        # Lanes past the end use the hash of the first window, which changes no minimum.
        if whole < stop:
            place = whole + tl.arange(0, positions)
            place = tl.where(place < stop, place, start)
            least = tl.minimum(least, tl.load(hashes + place)[:, None] * factor + term)
        row = tl.load(rows + stretch).to(tl.int64)
        tl.atomic_min(signature + row * count + numbers, tl.min(least, 0), sem="relaxed")
