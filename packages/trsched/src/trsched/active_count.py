"""N, the requests now active in a group."""

from __future__ import annotations

import ctypes
from typing import ClassVar


class ActiveCount(ctypes.Structure):
    """Written by the client loop, read by subservers and the tuner."""

    _fields_: ClassVar = (("value", ctypes.c_int64),)

    value: int
