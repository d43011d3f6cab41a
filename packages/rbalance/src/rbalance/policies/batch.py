"""What a policy decides about: a batch of requests with what is expected of their answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from rbalance.policies.weights import Weights
    from rbalance.predict.predictions import Predictions


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """One request for an instance.

    key: the caller's, unique among requests in flight. prompt_tokens and max_tokens must fit an
        instance's context together.
    needs: bits of the capabilities that an instance must have.
    models: names of those that may answer; None for any.
    not_on: instances that may not take it, as those that have failed it.
    max_usd, max_seconds: what the answer may cost and take, as predicted; infinite for no ceiling.
    weights: for this request alone; None for the policy's.
    """

    key: Hashable
    prompt: str
    prompt_tokens: int
    max_tokens: int
    needs: int = 0
    models: tuple[str, ...] | None = None
    max_usd: float = math.inf
    max_seconds: float = math.inf
    not_on: tuple[int, ...] = ()
    weights: Weights | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError: a number that cannot be."""
        if self.prompt_tokens < 0:
            raise ConfigError("prompt_tokens", f"must be 0 or more, not {self.prompt_tokens}")
        if self.max_tokens < 1:
            raise ConfigError("max_tokens", f"must be 1 or more, not {self.max_tokens}")
        if not 0 <= self.needs < 2**32:
            raise ConfigError("needs", f"must be 32 bits, not {self.needs}")
        if min(self.not_on, default=0) < 0:
            raise ConfigError("not_on", f"instances are numbered from 0, not {min(self.not_on)}")
        for field in ("max_usd", "max_seconds"):
            if not (value := getattr(self, field)) >= 0:
                raise ConfigError(field, f"must be 0 or more, not {value}")


@dataclass(frozen=True, slots=True, eq=False)
class RequestBatch:
    """R requests, M models.

    prompt_tokens, max_tokens: int32 [R].
    needs: uint32 [R].
    predictions: R rows.
    allowed: bool [R, M], None when every model may answer every request.
    max_usd, max_seconds: float64 [R], None without ceilings.
    vectors: float32 [R, D] of length 1, the prompts embedded; None where no policy in use looks at
        them or the embedder was too slow.
    prompts: R texts, or none.
    not_on: by request, the instances that may not take it; None when there are none.
    weights: float64 [R, 3], a row of NaN for the policy's own; None when all rows are.
    """

    prompt_tokens: NDArray[np.int32]
    max_tokens: NDArray[np.int32]
    needs: NDArray[np.uint32]
    predictions: Predictions
    allowed: NDArray[np.bool_] | None = None
    max_usd: NDArray[np.float64] | None = None
    max_seconds: NDArray[np.float64] | None = None
    prompts: Sequence[str] = ()
    vectors: NDArray[np.float32] | None = None
    not_on: Sequence[tuple[int, ...]] | None = None
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @classmethod
    def of(
        cls,
        requests: Sequence[RouteRequest],
        models: Sequence[str],
        predictions: Predictions,
        vectors: NDArray[np.float32] | None = None,
    ) -> RequestBatch:
        """The batch of some requests; models: the names of predictions' columns."""
        allowed = None
        if any(request.models is not None for request in requests):
            allowed = np.array(
                [
                    [request.models is None or model in request.models for model in models]
                    for request in requests
                ]
            )
        return cls(
            prompt_tokens=np.array([request.prompt_tokens for request in requests], np.int32),
            max_tokens=np.array([request.max_tokens for request in requests], np.int32),
            needs=np.array([request.needs for request in requests], np.uint32),
            predictions=predictions,
            allowed=allowed,
            max_usd=_ceilings([request.max_usd for request in requests]),
            max_seconds=_ceilings([request.max_seconds for request in requests]),
            prompts=[request.prompt for request in requests],
            vectors=vectors,
            not_on=_unless_none([request.not_on for request in requests]),
            weights=_weights([request.weights for request in requests]),
        )

    def may_go(self, instances: int) -> NDArray[np.bool_] | None:
        """Bool [R, instances], False where `not_on` says so; None when it says nothing."""
        if self.not_on is None:
            return None
        may = np.ones((len(self), instances), np.bool_)
        for row, barred in enumerate(self.not_on):
            may[row, [at for at in barred if at < instances]] = False
        return may


def _ceilings(each: list[float]) -> NDArray[np.float64] | None:
    return np.array(each) if min(each) < math.inf else None


def _unless_none(each: list[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
    return each if any(each) else None


def _weights(each: list[Weights | None]) -> NDArray[np.float64] | None:
    if all(weights is None for weights in each):
        return None
    return np.array([[math.nan] * 3 if weights is None else [*weights] for weights in each])
