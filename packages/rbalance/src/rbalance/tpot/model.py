"""What every source of TPOT estimates offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.cluster import Tier


@dataclass(frozen=True, slots=True)
class TpotQuery:
    """What a batch's decision knows of I instances at `now` (seconds of any monotonic clock).

    state: float32 [I, 17], columns as in rbalance.tpot.features.STATE_FEATURES, NaN for unknown.
    prompt: tokens of the batch's mean prompt.
    predicted: float32 [I], output tokens that the batch's mean request is expected to take on that
        instance.
    """

    state: NDArray[np.float32]
    prompt: float
    predicted: NDArray[np.float32]
    now: float


class TpotModel(Protocol):
    """Estimates for all instances in one call, once a batch.

    Instances are those of an InstanceState, spare numbers included.
    """

    def place(self, instance: int, tier: Tier) -> None:
        """A new instance has that number: nothing is known of it but its tier.

        Raises ConfigError: a tier that the model knows nothing of.
        """
        ...

    def seconds(self, query: TpotQuery) -> NDArray[np.float64]:
        """float64 [I], seconds per output token of one request; finite, above 0."""
        ...

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """A request wrote `tokens` tokens in `seconds` on an instance; models may learn of it."""
        ...
