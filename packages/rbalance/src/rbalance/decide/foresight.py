"""Predictions under a deadline: what is late or fails is replaced by the prior."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rbalance.decide.balancer_stats import BalancerStats
    from rbalance.predict.predictions import Predictions, Prior

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Foreseen:
    """Predictions for R prompts, and their vectors, float32 [R, D], for policies that use them."""

    predictions: Predictions
    vectors: NDArray[np.float32] | None = None


class Foresight:
    """Asks `predict` in a thread of its own, one batch at a time, `deadline_s` seconds each.

    Who comes while another batch is in time waits for its turn. A call that hangs occupies the
    thread until it returns; batches that come meanwhile do not queue up behind it but go by the
    prior at once.

    instant: `predict` only looks up what it has, see Predictor, and is called there and then.
    """

    def __init__(
        self,
        predict: Callable[[Sequence[str]], Foreseen],
        prior: Prior,
        deadline_s: float,
        stats: BalancerStats,
        instant: bool = False,
    ) -> None:
        self._instant = instant
        self._predict = predict
        self._prior = prior
        self._deadline_s = deadline_s
        self._stats = stats
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="foresight")
        self._turn = asyncio.Lock()
        self._busy: Future[Foreseen] | None = None

    async def of(self, prompts: Sequence[str]) -> Foreseen:
        """One row for each prompt, in time, whatever a predictor in a thread does."""
        try:
            if self._instant:
                return _checked(self._predict(prompts), prompts)
            async with asyncio.timeout(self._deadline_s), self._turn:
                return _checked(await self._ask(prompts), prompts)
        except TimeoutError:
            self._stats.predictor_late += 1
        except Exception as error:  # noqa: BLE001  a predictor's failure must not stop traffic
            self._stats.predictor_failed += 1
            self._stats.last_failure = repr(error)
            _LOG.warning("predictor failed, deciding by the prior", exc_info=error)
        return self._fallback(len(prompts))

    async def _ask(self, prompts: Sequence[str]) -> Foreseen:
        if self._busy is not None and not self._busy.done():
            self._stats.predictor_late += 1
            return self._fallback(len(prompts))
        self._busy = self._thread.submit(self._predict, prompts)
        return await asyncio.wrap_future(self._busy)

    def close(self) -> None:
        """Take no more calls; one that hangs is left to itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _fallback(self, requests: int) -> Foreseen:
        return Foreseen(self._prior.predictions(requests))


def _checked(foreseen: Foreseen, prompts: Sequence[str]) -> Foreseen:
    """Raises ValueError: not a row for each prompt."""
    if (rows := len(foreseen.predictions.quality)) != len(prompts):
        raise ValueError(f"{rows} predictions for {len(prompts)} prompts")
    return foreseen
