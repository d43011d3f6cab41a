"""`GET /v1/models`: the names that clients may ask for, and what answers under each."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from trserve.openai.schemas.choice_extension import is_none


class RoutingThreshold(BaseModel):
    """What `tokenrouter.threshold` of a request replaces.

    name: of the router's setting.
    value: what holds for requests without one; the configuration may have it outside of the range
        for requests, `low` to `high`; null from a gateway whose instances have different ones.
    low: the least that a request may name.
    high: the most.
    meaning: one sentence for people.
    """

    name: str
    value: float | None
    low: float
    high: float
    meaning: str


class Routing(BaseModel):
    """Extension: the models behind a served name, and the router that says which writes when."""

    models: list[str]
    router: str
    threshold: RoutingThreshold | None = Field(description="null where the router has none")


class NameCard(BaseModel):
    """A name that clients may ask for.

    tokenrouter: only there where each instance that may answer is an entry of a local group, all
        with the same models and router.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "tokenrouter"
    tokenrouter: Routing | None = Field(None, exclude_if=is_none)


class NameList(BaseModel):
    """All of them."""

    object: Literal["list"] = "list"
    data: list[NameCard]


class ModelCard(NameCard):
    """The name of a group."""

    tokenrouter: Routing


class ModelList(BaseModel):
    """All served names."""

    object: Literal["list"] = "list"
    data: list[ModelCard]
