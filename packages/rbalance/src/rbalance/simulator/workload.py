"""What a simulated cluster is asked, and what is true and what is predicted of each answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError
from rbalance.policies.batch import RequestBatch
from rbalance.predict.predictions import Predictions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rbalance.predict.predictions import Prior
    from rbalance.simulator.arrivals import ArrivalTrace

MAX_TOKENS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedWorkload:
    """N requests for M models, in order of arrival.

    arrival: float64 [N], seconds.
    prompt: int32 [N], tokens.
    length: int32 [N, M], tokens that each model's answer has; nobody knows them before.
    quality: float32 [N, M], 0 to 1, its score; nobody knows it before.
    predictions: N rows.
    vectors: float32 [N, D], None where no policy needs them.
    row: int [N], each request's prompt in the pool it was drawn from.
    """

    arrival: NDArray[np.float64]
    prompt: NDArray[np.int32]
    length: NDArray[np.int32]
    quality: NDArray[np.float32]
    predictions: Predictions
    prior: Prior
    vectors: NDArray[np.float32] | None
    row: NDArray[np.intp]

    def __post_init__(self) -> None:
        """Raises ConfigError: nothing arrives, or not in order."""
        if not len(self.arrival):
            raise ConfigError("workload", "no request arrives")
        if not (np.diff(self.arrival) >= 0).all():
            raise ConfigError("workload.arrival", "requests must be in order of arrival")

    def __len__(self) -> int:
        return len(self.arrival)

    def batch(self, rows: Sequence[int], late: bool = False) -> RequestBatch:
        """Some requests as a policy sees them; late: predictions and vectors did not come."""
        at = np.asarray(rows, np.intp)
        known = self.predictions
        predictions = (
            self.prior.predictions(len(at))
            if late
            else Predictions(known.quality[at], known.length[at], known.from_prior[at])
        )
        return RequestBatch(
            prompt_tokens=self.prompt[at],
            max_tokens=np.full(len(at), MAX_TOKENS, np.int32),
            needs=np.zeros(len(at), np.uint32),
            predictions=predictions,
            vectors=None if late or self.vectors is None else self.vectors[at],
        )

    def with_lengths_of(self, trace: ArrivalTrace) -> SimulatedWorkload:
        """The same requests with a trace's prompts and answers in place of their own.

        Each answer keeps its ratio to the mean over models, and so does each prediction. Requests
        beyond the trace's end, and unknown lengths, stay as they are.
        """
        n = min(len(self), len(trace.at))
        prompt, length = self.prompt.copy(), self.length.astype(np.float64)
        known = ~np.isnan(trace.prompt_tokens[:n])
        prompt[:n][known] = np.minimum(trace.prompt_tokens[:n][known], 24_000)
        factor = np.nan_to_num(trace.output_tokens[:n] / length[:n].mean(axis=1), nan=1.0)
        length[:n] *= factor[:, None]
        expected = self.predictions.length.copy()
        expected[:n] *= factor[:, None]
        known_of = self.predictions
        return replace(
            self,
            prompt=prompt,
            length=_tokens(length),
            predictions=Predictions(
                known_of.quality, np.maximum(expected, 1.0), known_of.from_prior
            ),
        )


def _tokens(length: NDArray[np.floating]) -> NDArray[np.int32]:
    return np.asarray(np.clip(np.rint(length), 1, MAX_TOKENS).astype(np.int32))
