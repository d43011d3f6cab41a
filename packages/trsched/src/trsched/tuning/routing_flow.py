"""Where requests go after a step and which tokens stand: the routing side of throughput."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from trsched.errors import ConfigError

_ROW_TOLERANCE = 1e-6  # of numbers that people type


class RoutingFlow(msgspec.Struct, frozen=True):
    """Routing that looks at nothing. Both are `[models][models]`; i = j: the request stays.

    routing[i][j]: how often a step at model i ends with its request at model j.
    committed[i][j]: tokens that such a step adds to the response; 0 where a token is dropped on the
        way.
    """

    routing: list[list[float]]
    committed: list[list[float]]

    @property
    def rate(self) -> float:
        """p: the share of the first model's steps after which the request leaves it."""
        return math.fsum(self.routing[0][1:])


def one_token_visits(p: float) -> RoutingFlow:
    """R2R, CITER, Co-LLM: the token is dropped, the other model makes it and hands back."""
    return RoutingFlow([[1 - p, p], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]])


def both_sides(p: float, q: float) -> RoutingFlow:
    """R-Stitch: dropped on the way there, kept on the way back; both models stay where they are."""
    return RoutingFlow([[1 - p, p], [q, 1 - q]], [[1.0, 0.0], [1.0, 1.0]])


def checked(flow: RoutingFlow, field: str) -> RoutingFlow:
    """With rows that sum to 1 exactly. Raises ConfigError naming `field`."""
    rows = []
    for number, row in enumerate(flow.routing):
        total = math.fsum(row)
        if abs(total - 1) > _ROW_TOLERANCE:
            raise ConfigError(field, f"row {number} sums to {total:g}, not to 1")
        rows.append([probability / total for probability in row])
    reached = np.linalg.matrix_power(np.eye(len(rows)) + np.array(rows), len(rows)) > 0
    if not reached.all():
        start, end = (int(index) for index in np.argwhere(~reached)[0])
        raise ConfigError(
            field, f"requests at model {start} never get to model {end}: nothing to tune"
        )
    if not np.any(np.array(rows) * np.array(flow.committed)):
        raise ConfigError(field, "no step commits a token")
    return RoutingFlow(rows, flow.committed)


def with_rate(flow: RoutingFlow, p: float) -> RoutingFlow:
    """The same, but that requests leave the first model after a share `p` of its steps."""
    first = [1 - p, *(share / flow.rate * p for share in flow.routing[0][1:])]
    return RoutingFlow([first, *flow.routing[1:]], flow.committed)


def tokens_read_per_step(flow: RoutingFlow) -> list[float]:
    """Tokens that each model ingests with a step of one request, in the mean; at least 1.

    Every committed token is ingested by every model, by the one that made it as by those that were
    away: they read what they lack when the request comes back to them.
    """
    rows = np.array(flow.routing)
    shares = _steps_by_model(rows)
    committed = float(shares @ (rows * np.array(flow.committed)).sum(axis=1))
    return [max(1.0, committed / float(share)) for share in shares]


def _steps_by_model(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of all steps of a request that each model makes: the stationary distribution."""
    count = len(rows)
    equations = np.vstack([rows.T - np.eye(count), np.ones(count)])
    right = np.append(np.zeros(count), 1.0)
    shares: NDArray[np.float64] = np.linalg.lstsq(equations, right, rcond=None)[0]
    return shares
