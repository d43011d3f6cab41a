"""What every policy is: a decision over a batch, from what is known when it is made."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rbalance.policies.batch import RequestBatch
    from rbalance.policies.weights import Weights
    from rbalance.predict.predictions import Prior
    from rbalance.state.instance_state import InstanceState
    from trcore import InstanceView

NO_INSTANCE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Placements:
    """Where R requests go.

    instance: int32 [R], NO_INSTANCE where none may take the request.
    also: by row, further instances that answer at the same time.
    then: by row, models that are asked one after another once the answer before has come; the last
        answer counts.
    rerouted: requests whose policy chose a model without an open instance and that go elsewhere.
    relaxed: placed above their ceilings, as the policy's rules allow.
    unusable: predictions that were not finite, for which a prior stood in.
    terms: float64 [R, 6], for each request's instance what `policies.terms.Terms` names, in its
        order (NaN without an instance); None from a policy that has no scores.
    """

    instance: NDArray[np.int32]
    also: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    then: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    rerouted: int = 0
    relaxed: int = 0
    unusable: int = 0
    terms: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """What R answers would cost and take on each of I instances; NaN where one is closed or has no
    room.

    usd: float64 [R, I].
    seconds: float64 [R, I], from now to the last token.
    """

    usd: NDArray[np.float64]
    seconds: NDArray[np.float64]


class Policy(Protocol):
    """Chooses; it neither sends anything nor keeps accounts: those are InstanceState's."""

    @property
    def uses_vectors(self) -> bool:
        """`RequestBatch.vectors` must be there."""
        ...

    @property
    def draws(self) -> bool:
        """`decide` draws at random: asked again, it may choose otherwise."""
        ...

    def decide(self, batch: RequestBatch, state: InstanceState, now: float) -> Placements:
        """One placement for each request; the state is only read, and left as it was."""
        ...

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """An instance took so long for the tokens after a request's first; for what learns."""
        ...


class WeightedPolicy(Policy):
    """A policy that scores every instance by quality, cost and latency, and keeps to ceilings.

    A class to inherit from and no protocol, as each request asks whether its policy is one: for a
    protocol `isinstance` takes as long as a decision.

    weights: may be replaced between decisions, as an SLO controller does.
    prior: what stands in for predictions that are not finite.
    """

    weights: Weights
    prior: Prior

    @abstractmethod
    def scores(self, batch: RequestBatch, view: InstanceView) -> NDArray[np.float64]:
        """float64 [R, I]: each request's scores as if it were alone, -inf where it may not go."""

    @abstractmethod
    def prices(self, batch: RequestBatch, view: InstanceView) -> Prices:
        """What `decide` finds for the same batch: each request sees those placed before it."""
