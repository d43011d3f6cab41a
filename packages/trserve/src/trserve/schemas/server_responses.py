"""Answers of the endpoints that generate nothing, and the error object."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class ErrorDetail(BaseModel):
    """What went wrong. param: path of the field at fault. code: stable, for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """Every answer that is not 2xx."""

    error: ErrorDetail


class ModelCard(BaseModel):
    """A served name."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "tokenrouter"


class ModelList(BaseModel):
    """All served names."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


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
