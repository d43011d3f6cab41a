"""MurmurHash3 (x86, 32 bits) in plain integers, as its author published it."""

from __future__ import annotations

from collections.abc import Sequence

_MASK = 0xFFFFFFFF


def murmur3(blocks: Sequence[int]) -> int:
    """Hash of 32-bit blocks, with seed 0."""
    h = 0
    for block in blocks:
        k = block * 0xCC9E2D51 & _MASK
        k = (k << 15 | k >> 17) & _MASK
        h ^= k * 0x1B873593 & _MASK
        h = (h << 13 | h >> 19) & _MASK
        h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4 * len(blocks)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16
