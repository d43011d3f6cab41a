"""Fixed-size data carved out of one block of memory, private or shared by processes."""

from __future__ import annotations

from ctypes import Array, Structure, sizeof
from mmap import mmap
from typing import Any, TypeVar, cast

_Data = TypeVar("_Data", bound="Structure | Array[Any]")

_LINE = 64
"""Bytes of a cache line: what different processes write lies on different ones."""


class Arena:
    """Whoever takes the same kinds in the same order from the same block gets the same memory.

    block: zeroes at first, mapped by all who share it; None for memory of this process alone.
    is_new: this process gives what it takes its first values.
    used: bytes taken so far.
    """

    def __init__(self, block: mmap | None = None, *, is_new: bool = True) -> None:
        self._block = block
        self.is_new = is_new
        self.used = 0

    def take(self, kind: type[_Data]) -> _Data:
        """The next of that kind, all zeroes if nobody has written to it."""
        start = self.used
        self.used += -(-sizeof(kind) // _LINE) * _LINE
        if self._block is None:
            return cast(_Data, kind.from_buffer(bytearray(sizeof(kind))))
        return cast(_Data, kind.from_buffer(self._block, start))
