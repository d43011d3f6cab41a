"""The hash behind SGLang's seeded sampling, for machines without its kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_MASK = 0xFFFFFFFF


def murmur_hash32(seed: Tensor, positions: Tensor, columns: Tensor) -> Tensor:
    """MurmurHash3 (32 bits) of the blocks (low seed, high seed, position, column).

    seed: `[n]` uint64. positions: `[n]`, columns: `[m]`, below 2³². Returns `[n, m]` int64 in
    [0, 2³²). Equals `sglang/kernels/ops/sampling/murmur_hash.py`, which runs on GPUs.
    """
    import torch

    rows = seed.view(torch.int64)
    h = torch.zeros_like(rows)
    for block in (rows & _MASK, rows >> 32 & _MASK, positions.to(torch.int64)):
        h = _mix(h, block)
    h = _mix(h[:, None], columns.to(torch.int64)[None, :])
    h = h ^ 16  # bytes hashed
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _mix(h: Tensor, block: Tensor) -> Tensor:
    # int64 products wrap, and their low 32 bits are right all the same
    block = block * 0xCC9E2D51 & _MASK
    block = _rotate(block, 15) * 0x1B873593 & _MASK
    return _rotate(h ^ block, 13) * 5 + 0xE6546B64 & _MASK


def _rotate(x: Tensor, bits: int) -> Tensor:
    return (x << bits | x >> 32 - bits) & _MASK
