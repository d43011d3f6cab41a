"""Which instances may take which requests: the filters before any choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.policies.batch import Batch
    from rbalance.state.instance_state import InstanceState


def survivors(batch: Batch, state: InstanceState) -> NDArray[np.bool_]:
    """Bool [R, I]: open, wide enough for prompt and answer, capable, of an allowed model, and not
    barred.
    """
    view = state.view
    tokens = batch.prompt_tokens.astype(np.int64) + batch.max_tokens
    fits = (tokens[:, None] <= view.context_window) & view.healthy & ~view.draining
    fits &= (batch.needs[:, None] & ~view.capabilities) == 0
    if batch.allowed is not None:
        fits &= batch.allowed[:, view.model]
    if (may_go := batch.may_go(len(view))) is not None:
        fits &= may_go
    return fits
