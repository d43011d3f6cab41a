"""A request's body as the gateway needs to know it; everything else stays as it was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec

from trserve.gateway.config.config import WeightShares

if TYPE_CHECKING:
    from rbalance import Weights


class RouteOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The request's object `routebalance`, which no instance sees.

    weights: instead of the gateway's.
    models: which may answer, instead of what `model` says.
    max_usd: most that it may cost, as predicted.
    max_seconds: longest that it may take, as predicted.
    explain: the answer says how it was chosen.
    """

    weights: str | WeightShares | None = None
    models: Annotated[list[str], msgspec.Meta(max_length=100)] | None = None
    max_usd: float | None = None
    max_seconds: float | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """What a client asks for.

    fields: the body's, each as its bytes, without `routebalance`.
    model: the name asked for.
    stream: the answer is to come in pieces.
    prompt: what is asked last.
    prompt_tokens: an estimate.
    max_tokens: of the answer; None where the client leaves it open.
    needs: bits of CAPABILITIES.
    options: `routebalance`.
    weights: of the options; None for the gateway's.
    max_usd: of the options; infinity without.
    max_seconds: of the options; infinity without.
    """

    fields: dict[str, msgspec.Raw]
    model: str
    stream: bool
    prompt: str
    prompt_tokens: int
    max_tokens: int | None
    needs: int
    options: RouteOptions
    weights: Weights | None
    max_usd: float
    max_seconds: float

    @property
    def names(self) -> tuple[str, ...]:
        """Of the models that it asks for."""
        return (self.model, *(self.options.models or ()))

    @property
    def most_tokens(self) -> int:
        """Of prompt and answer, as far as it announces them."""
        return self.prompt_tokens + (self.max_tokens or 0)
