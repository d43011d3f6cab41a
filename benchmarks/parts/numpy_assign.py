"""What `trcore.assign` does, in NumPy: all instances at once, one request after another.

Without filters but for the context window, which the comparison doesn't use. Written for speed:
columns that don't change are worked out once a batch, every operation writes to memory that is
there, and only what an assignment changes is computed anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class NumpyAssign:
    """An assigner for one view, with room for its intermediate columns."""

    def __init__(self, view: Any) -> None:
        self.view = view
        self.usd, self.seconds, self.score, self.scratch = np.empty((4, len(view)))

    def __call__(
        self,
        weights: tuple[float, float, float],
        prompt_tokens: Array,
        max_tokens: Array,
        quality: Array,
        length: Array,
        chosen: Array,
        tokens: Array,
    ) -> None:
        """Write `chosen` and `tokens`, in the order of LPT; the view stays as it is."""
        view = self.view
        lengths = np.clip(length, 1.0, max_tokens[:, None], dtype=np.float64)
        model = view.model
        lengths_at, qualities_at = lengths[:, model], quality[:, model].astype(np.float64)
        input_usd, output_usd = view.input_price * 1e-6, view.output_price * 1e-6
        tpot = np.clip(view.tpot_s, 1e-3, 1e3)
        rate = view.prefill_rate
        prefill_s = np.divide(1.0, rate, out=np.zeros(len(rate)), where=rate > 0)
        prefill, decode = view.pending_prefill.copy(), view.pending_decode.copy()
        running = np.maximum(view.running, 1)
        free = (view.running < view.slots) & (view.waiting == 0)
        backlog = np.where(free, 0.0, decode / running)
        in_flight, last = view.running + view.waiting, view.last_assigned.copy()
        sequence = int(last.max())
        usd = prompt_tokens[:, None] * input_usd + lengths_at * output_usd
        most = usd.max(axis=1)
        divisors = np.where(most > usd.min(axis=1), most, np.inf)
        w_qual, w_cost, w_lat = weights
        fixed = w_qual * qualities_at + w_cost * (1.0 - usd / divisors[:, None])
        closed = ~(view.healthy & ~view.draining)
        seconds, score, scratch = self.seconds, self.score, self.scratch
        for r in np.argsort(-lengths.sum(axis=1), kind="stable").tolist():
            prompt = int(prompt_tokens[r])
            np.add(backlog, lengths_at[r], out=seconds)
            np.multiply(tpot, seconds, out=seconds)
            np.add(prefill, prompt, out=scratch)
            np.multiply(scratch, prefill_s, out=scratch)
            np.add(seconds, scratch, out=seconds)
            high = seconds.max()
            np.divide(seconds, high if high > seconds.min() else np.inf, out=seconds)
            np.subtract(1.0, seconds, out=seconds)
            np.multiply(w_lat, seconds, out=seconds)
            np.add(fixed[r], seconds, out=score)
            score[closed] = -np.inf
            ties = np.flatnonzero(score == score.max())
            if len(ties) > 1:
                ties = ties[np.lexsort((last[ties], in_flight[ties]))]
            at = int(ties[0])
            added = round(float(lengths_at[r, at]))
            chosen[r], tokens[r] = at, added
            sequence += 1
            last[at] = sequence
            in_flight[at] += 1
            prefill[at] += prompt
            decode[at] += added
            backlog[at] = decode[at] / running[at]
