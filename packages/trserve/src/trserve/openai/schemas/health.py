"""`GET /health` of one group: which models answer, and how many requests they have."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class SubserverHealth(BaseModel):
    """One model of the group."""

    name: str
    alive: bool
    waiting: int
    running: int
    pending: int


class Health(BaseModel):
    """`ok`; `degraded`: some model died, others answer; `unavailable`: none is left."""

    status: Literal["ok", "degraded", "draining", "unavailable"]
    queued: int
    active: int
    subservers: list[SubserverHealth]
