"""What is expected of each model's answer to a prompt, before anybody answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Predictions:
    """Expected answers of M models to R prompts; every number is finite.

    quality: float32 [R, M], 0 to 1.
    length: float32 [R, M], output tokens, at least 1.
    from_prior: bool [R, M], where the quality is the model's prior: nothing alike was labelled.
    """

    quality: NDArray[np.float32]
    length: NDArray[np.float32]
    from_prior: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Prior:
    """Each model's mean quality and length over its labelled prompts.

    What a decision uses when a predictor is late or fails.

    quality: float32 [M], 0 to 1.
    length: float32 [M], output tokens.
    """

    models: tuple[str, ...]
    quality: NDArray[np.float32]
    length: NDArray[np.float32]

    def predictions(self, requests: int) -> Predictions:
        """The same expectation for every one of `requests` prompts; arrays of its own."""
        return Predictions(
            quality=np.repeat(self.quality[None], requests, axis=0),
            length=np.repeat(self.length[None], requests, axis=0),
            from_prior=np.ones((requests, len(self.models)), np.bool_),
        )


class Predictor(Protocol):
    """Quality and length from prompts alone: asked once for a whole batch.

    `predict` may take tens of milliseconds with the GIL released; it never raises for what a prompt
    contains, and a prompt it can't use gets the prior. Columns follow `prior.models`.
    """

    @property
    def prior(self) -> Prior:
        """What to use without it."""
        ...

    @property
    def instant(self) -> bool:
        """`predict` only looks up what it has: it takes no longer than handing it to a thread."""
        ...

    def predict(self, prompts: Sequence[str]) -> Predictions:
        """One row for each prompt."""
        ...
