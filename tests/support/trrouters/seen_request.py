"""A request as routers see it, written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trrouters import LogitsOutput, RouteResult
from trrouters.route_result import Tensor


@dataclass
class SeenRequest:
    """Implements `trrouters.RoutedRequest`."""

    origin_input_ids: list[int]
    output_ids: list[int] = field(default_factory=list)
    rid: int = 7
    seed: int = 0
    threshold: float | None = None
    peer_locs: Sequence[int] = (0, 0)
    peer: int = 1
    arrived_loc: int = 0
    ends: bool = False

    def finished(self) -> bool:
        return self.ends


def step_of(requests: Sequence[SeenRequest], logits: Tensor | None = None) -> RouteResult:
    """The result of a step that sampled the last token of each request."""
    import numpy as np

    tokens = np.array([req.output_ids[-1] for req in requests], dtype=np.int64)
    return RouteResult(requests, tokens, LogitsOutput(logits))
