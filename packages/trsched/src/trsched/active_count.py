"""N, the requests now active in a group."""

from __future__ import annotations


class ActiveCount:
    """Written by the client loop, read by subservers and the tuner."""

    def __init__(self) -> None:
        self.value = 0
