"""How many requests are now active in a group."""

from __future__ import annotations

import ctypes
from typing import ClassVar


class ActiveCount(ctypes.Structure):
    """Written by the client loop, read by subservers and the tuner.

    routed: N of delayed batching, those of `value` that are not bound to one model.
    """

    _fields_: ClassVar = (("value", ctypes.c_int64), ("routed", ctypes.c_int64))

    value: int
    routed: int

    def change(self, by: int, *, routed: bool) -> None:
        """So many requests have come (negative: have ended)."""
        self.value += by
        if routed:
            self.routed += by
