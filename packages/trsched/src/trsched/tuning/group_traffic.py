"""A group as its measured or configured latencies and routing describe it, for any concurrency."""

from __future__ import annotations

import msgspec
import numpy as np

from trsched.plan.config import ProfileModel
from trsched.tuning.routing_flow import RoutingFlow, tokens_read_per_step
from trsched.tuning.throughput import Situation


class GroupTraffic(msgspec.Struct, frozen=True):
    """Models by their latencies, and how requests go between them.

    models: with `step_ms` by batch size, reading not included.
    flow: where requests go after a step.
    shared_device: whether one model steps at a time.
    """

    models: list[ProfileModel]
    flow: RoutingFlow
    shared_device: bool = False

    def situation(self, requests: int) -> Situation:
        """With `requests` at once."""
        return Situation(
            routing=np.array(self.flow.routing),
            commits=np.array(self.flow.committed),
            step_seconds=[np.array(curve) for curve in self.seconds(requests)],
            active=requests,
            shared_device=self.shared_device,
        )

    def seconds(self, requests: int) -> list[list[float]]:
        """Of each model, a step's latency for batches of 1 … `requests`, reading included."""
        read = tokens_read_per_step(self.flow)
        return [
            [
                (_step_ms(model, size) + size * (tokens - 1) * model.extend_token_ms) * 1e-3
                for size in range(1, requests + 1)
            ]
            for model, tokens in zip(self.models, read, strict=True)
        ]

    def alone(self, requests: int) -> dict[str, float]:
        """Tokens a second if one model writes everything, by its name."""
        return {model.name: requests / _step_ms(model, requests) * 1e3 for model in self.models}


def _step_ms(model: ProfileModel, size: int) -> float:
    """A plain decode of `size` requests."""
    return model.step_ms[min(size, len(model.step_ms)) - 1]
