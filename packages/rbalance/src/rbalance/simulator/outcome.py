"""What became of each request of a simulation, and the figures that sum it up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.tpot.record import TpotRecord


@dataclass(slots=True, eq=False)
class SimulationOutcome:
    """Arrays [N] by request: seconds, NaN where it never came to that.

    dispatched: when it left for its first instance.
    first: its first token.
    finished: its last.
    quality: of the answer that counts; NaN if there is none.
    usd: of all that was written for it.
    model, instance: of the answer that counts, -1 without.
    """

    arrival: NDArray[np.float64]
    dispatched: NDArray[np.float64]
    first: NDArray[np.float64]
    finished: NDArray[np.float64]
    quality: NDArray[np.float64]
    usd: NDArray[np.float64]
    model: NDArray[np.int32]
    instance: NDArray[np.int32]
    batches: int = 0
    late: int = 0
    rerouted: int = 0
    unusable: int = 0
    policy_s: float = 0.0
    slo_shares: list[tuple[float, float]] = field(default_factory=list)
    tpot_rows: list[TpotRecord] = field(default_factory=list)

    @classmethod
    def empty(cls, arrival: NDArray[np.float64]) -> SimulationOutcome:
        """Before anything happened."""
        n = len(arrival)
        return cls(
            arrival=arrival,
            dispatched=np.full(n, np.nan),
            first=np.full(n, np.nan),
            finished=np.full(n, np.nan),
            quality=np.full(n, np.nan),
            usd=np.zeros(n),
            model=np.full(n, -1, np.int32),
            instance=np.full(n, -1, np.int32),
        )

    @property
    def e2e(self) -> NDArray[np.float64]:
        """float64 [N]: from arrival to the last token."""
        return self.finished - self.arrival

    def summary(self) -> Figures:
        """Over the requests that were answered."""
        done = ~np.isnan(self.finished)
        if not done.any():
            return Figures(requests=len(done), answered=0)
        e2e, residual = self.e2e[done], (self.dispatched - self.arrival)[done]
        p50, p95, p99 = np.quantile(e2e, (0.5, 0.95, 0.99))
        span = self.finished[done].max() - self.arrival.min()
        return Figures(
            requests=len(done),
            answered=int(done.sum()),
            e2e_s=float(e2e.mean()),
            e2e_p50_s=float(p50),
            e2e_p95_s=float(p95),
            e2e_p99_s=float(p99),
            ttft_s=float(np.nanmean(self.first[done] - self.arrival[done])),
            residual_s=float(residual.mean()),
            quality=float(self.quality[done].mean()),
            usd=float(self.usd[done].mean()),
            throughput=float(done.sum() / span) if span > 0 else float("nan"),
            mean_batch=len(done) / max(1, self.batches),
            late=self.late,
            rerouted=self.rerouted,
            unusable=self.unusable,
            policy_us=1e6 * self.policy_s / len(done),
            model_share=[
                float((self.model[done] == model).mean()) for model in range(self.model.max() + 1)
            ],
        )


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Means over answered requests unless the name says otherwise.

    e2e_s, ttft_s: from arrival.
    residual_s: from arrival to dispatch.
    usd: a request's.
    throughput: requests a second, from the first arrival to the last token.
    mean_batch: requests a decision.
    late: batches decided without predictions.
    rerouted: requests whose policy chose a model without an open instance.
    unusable: predictions that were not finite.
    policy_us: wall clock of the policy's code for a request.
    model_share: of answers, by model.
    """

    requests: int
    answered: int
    e2e_s: float = float("nan")
    e2e_p50_s: float = float("nan")
    e2e_p95_s: float = float("nan")
    e2e_p99_s: float = float("nan")
    ttft_s: float = float("nan")
    residual_s: float = float("nan")
    quality: float = float("nan")
    usd: float = float("nan")
    throughput: float = float("nan")
    mean_batch: float = float("nan")
    late: int = 0
    rerouted: int = 0
    unusable: int = 0
    policy_us: float = 0.0
    model_share: list[float] = []
