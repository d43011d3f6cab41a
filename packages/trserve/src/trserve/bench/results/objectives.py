"""Latency objectives (SLO) of one request, and whether it met them all."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trsched.errors import ConfigError
from trserve.bench.client.request_record import RequestRecord


@dataclass(frozen=True, slots=True)
class Objectives:
    """Most seconds; None where it doesn't matter."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    def met(self, record: RequestRecord) -> bool:
        """By a complete response. Without content no time to it is met.

        A response too short to have a time per output token keeps that objective.
        """
        if record.failure is not None:
            return False
        return (
            (self.ttft is None or (record.ttft is not None and record.ttft <= self.ttft))
            and (self.tpot is None or record.tpot is None or record.tpot <= self.tpot)
            and (self.e2e is None or record.e2e <= self.e2e)
        )


def objectives(text: str, field: str) -> Objectives:
    """`ttft=0.5,tpot=0.05,e2e=10`, some of them. Raises ConfigError naming `field`."""
    bounds: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if name not in {"ttft", "tpot", "e2e"} or name in bounds or not 0 < seconds < math.inf:
            raise ConfigError(field, f"expected seconds like ttft=0.5,tpot=0.05,e2e=10: {text!r}")
        bounds[name] = seconds
    return Objectives(**bounds)
