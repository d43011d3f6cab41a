"""Which instances may take which requests, and what keeps the others from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trcore import WhyNot, why_not

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.policies.batch import RequestBatch
    from rbalance.policies.policy import Prices
    from trcore import InstanceView

CEILINGS = WhyNot.ABOVE_MAX_USD | WhyNot.ABOVE_MAX_SECONDS


def reasons(
    batch: RequestBatch, view: InstanceView, prices: Prices | None = None
) -> NDArray[np.uint8]:
    """uint8 [R, I]: bits of WhyNot, 0 for a candidate.

    prices: what a policy that keeps to ceilings expects; None: ceilings do not count.
    """
    return why_not(
        view,
        batch.prompt_tokens,
        batch.max_tokens,
        needs=batch.needs,
        models=batch.allowed,
        instances=batch.may_go(len(view)),
        usd=None if prices is None else prices.usd,
        seconds=None if prices is None else prices.seconds,
        max_usd=batch.max_usd,
        max_seconds=batch.max_seconds,
    )


def survivors(batch: RequestBatch, view: InstanceView) -> NDArray[np.bool_]:
    """Bool [R, I]: open, wide enough for prompt and answer, capable, of an allowed model, and not
    excluded; whatever its ceilings.
    """
    return np.asarray(reasons(batch, view) == 0)
