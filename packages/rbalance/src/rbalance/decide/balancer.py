"""The live loop: requests wait, batches are predicted and decided, each learns its instance.

What decides when and where is the same as in a simulation: rbalance.decide.batching and a policy.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rbalance.decide.batching import AdaptiveSizing, BatchQueue
from rbalance.decide.explain import explain
from rbalance.decide.why_not_text import why_none_text
from rbalance.errors import NoInstanceError
from rbalance.policies.batch import RequestBatch, RouteRequest
from rbalance.policies.candidates import reasons
from rbalance.policies.policy import NO_INSTANCE, WeightedPolicy
from rbalance.policies.terms import Terms
from rbalance.predict.predictions import Predictions
from trcore import WhyNot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rbalance.decide.balancer_stats import BalancerStats
    from rbalance.decide.batching import BatchSizing
    from rbalance.decide.explain import Explanation
    from rbalance.decide.foresight import Foreseen, Foresight
    from rbalance.policies.policy import Policy
    from rbalance.state.instance_state import InstanceState

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Routed:
    """Where a request goes; it is in flight in the InstanceState under its key, to be released.

    predicted_tokens: of its answer there, at least 1.
    terms: why there; None from a policy without scores.
    also: instances that are to answer at the same time, under (key, 1), (key, 2) and so on.
    then: models to ask afterwards. See Placements.
    """

    instance: int
    predicted_tokens: float
    terms: Terms | None = None
    also: tuple[int, ...] = ()
    then: tuple[int, ...] = ()


@dataclass(slots=True)
class _Waiting:
    request: RouteRequest
    answer: asyncio.Future[Routed]


class Balancer:
    """Use as `async with`; `route` from any task of that loop."""

    def __init__(
        self,
        state: InstanceState,
        policy: Policy,
        foresight: Foresight,
        stats: BalancerStats,
        sizing: BatchSizing | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """sizing: None: AdaptiveSizing.
        clock: None: the event loop's, which state's times are.
        """
        self._state = state
        self._policy = policy
        self._foresight = foresight
        self._stats = stats
        self._queue = BatchQueue[_Waiting](sizing or AdaptiveSizing())
        self._clock = clock
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Balancer:
        if self._clock is None:
            self._clock = asyncio.get_running_loop().time
        self._task = asyncio.create_task(self._run(self._clock))
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        self._foresight.close()
        for waiting in self._queue.drain():
            waiting.answer.cancel()

    async def route(self, request: RouteRequest) -> Routed:
        """Wait for a decision.

        Raises NoInstanceError: no instance may take it. Whatever the policy raises for this request
        and for no other of its batch. RuntimeError: outside of `async with`.
        """
        clock = self._running()
        answer: asyncio.Future[Routed] = asyncio.get_running_loop().create_future()
        self._stats.requests += 1
        self._queue.add(_Waiting(request, answer), clock())
        self._news.set()
        return await answer

    async def explain(self, request: RouteRequest) -> Explanation:
        """What `route` would find now, and why; nothing is dispatched.

        Raises whatever the policy raises. RuntimeError: outside of `async with`.
        """
        clock = self._running()
        foreseen = await self._foresight.of([request.prompt])
        now = clock()
        self._state.refresh(now)
        known = RequestBatch.of(
            [request], self._state.models, foreseen.predictions, foreseen.vectors
        )
        return explain(self._policy, known, self._state, now)

    def _running(self) -> Callable[[], float]:
        if self._clock is None or self._task is None or self._task.done():
            raise RuntimeError("this balancer is not running: use it as `async with`")
        return self._clock

    async def _run(self, clock: Callable[[], float]) -> None:
        while True:
            now = clock()
            batch = self._queue.take(now)
            if batch:
                await self._serve(batch, clock)
                continue
            self._news.clear()
            due = self._queue.due()
            try:
                async with asyncio.timeout(None if due == math.inf else max(0.0, due - now)):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _serve(self, batch: list[_Waiting], clock: Callable[[], float]) -> None:
        try:
            foreseen = await self._foresight.of([each.request.prompt for each in batch])
            self._decide(batch, foreseen, clock())
        except Exception as error:  # noqa: BLE001  reaches these requests; the next ones go on
            self._stats.last_failure = repr(error)
            _LOG.error("a batch was not decided", exc_info=error)
            for each in batch:
                if not each.answer.done():
                    each.answer.set_exception(error)
        finally:
            for each in batch:
                if not each.answer.done():
                    each.answer.cancel()
            self._stats.batches += 1
            self._queue.decided(self._state.congested())

    def _decide(self, batch: Sequence[_Waiting], foreseen: Foreseen, now: float) -> None:
        """Answer every request; if the policy fails for all together, ask for each alone."""
        wanted = [row for row, each in enumerate(batch) if not each.answer.done()]
        self._stats.withdrawn += sum(each.answer.cancelled() for each in batch)
        if not wanted:
            return
        self._state.refresh(now)
        self._stats.stale_instances = self._state.stale(now)
        try:
            self._place([batch[row] for row in wanted], _rows(foreseen, wanted), now)
        except Exception as error:  # noqa: BLE001  reaches the one request it is about
            if len(wanted) == 1:
                self._stats.bad_requests += 1
                self._stats.last_failure = repr(error)
                _LOG.warning("no decision for %r", batch[wanted[0]].request.key, exc_info=error)
                batch[wanted[0]].answer.set_exception(error)
                return
            for row in wanted:
                self._decide([batch[row]], _rows(foreseen, [row]), now)

    def _place(self, batch: Sequence[_Waiting], foreseen: Foreseen, now: float) -> None:
        requests = [each.request for each in batch]
        known = RequestBatch.of(
            requests, self._state.models, foreseen.predictions, foreseen.vectors
        )
        placed = self._policy.decide(known, self._state, now)
        self._stats.unusable_predictions += placed.unusable
        self._stats.rerouted += placed.rerouted
        self._stats.relaxed += placed.relaxed
        refused = self._refusals(known, placed.instance)
        lengths = foreseen.predictions.length.tolist()
        terms = None if placed.terms is None else placed.terms.tolist()
        for row, (each, instance) in enumerate(zip(batch, placed.instance.tolist(), strict=True)):
            if instance == NO_INSTANCE:
                self._stats.no_instance += 1
                why = refused[row]
                each.answer.set_exception(NoInstanceError(why_none_text(each.request, why), why))
                continue
            routed = Routed(
                instance,
                self._expected(each.request, instance, lengths[row]),
                None if terms is None else Terms(*terms[row]),
                placed.also.get(row, ()),
                placed.then.get(row, ()),
            )
            self._dispatch(each.request, routed, lengths[row], now)
            each.answer.set_result(routed)

    def _dispatch(
        self, request: RouteRequest, routed: Routed, lengths: Sequence[float], now: float
    ) -> None:
        prompt = request.prompt_tokens
        self._state.dispatch(request.key, routed.instance, prompt, routed.predicted_tokens, now)
        for part, instance in enumerate(routed.also, start=1):
            tokens = self._expected(request, instance, lengths)
            self._state.dispatch((request.key, part), instance, prompt, tokens, now)

    def _expected(self, request: RouteRequest, instance: int, lengths: Sequence[float]) -> float:
        """Tokens of its answer there; 1 where the predicted length is no number."""
        length = lengths[int(self._state.view.model[instance])]
        return min(max(1.0, length), request.max_tokens) if length > 0 else 1.0

    def _refusals(
        self, batch: RequestBatch, placed: NDArray[np.int32]
    ) -> dict[int, dict[int, WhyNot]]:
        """What kept each request that was not placed from each instance, by row and number.

        Before anything of the batch is dispatched: the policy saw the view as it is.
        """
        rows = np.flatnonzero(placed == NO_INSTANCE).tolist()
        if not rows:
            return {}
        policy, view = self._policy, self._state.view
        prices = policy.prices(batch, view) if isinstance(policy, WeightedPolicy) else None
        found = reasons(batch, view, prices)
        there = [at for at, tier in enumerate(self._state.tier) if tier is not None]
        return {row: {at: WhyNot(int(found[row, at])) for at in there} for row in rows}


def _rows(foreseen: Foreseen, rows: list[int]) -> Foreseen:
    given, vectors = foreseen.predictions, foreseen.vectors
    if len(rows) == len(given.quality):
        return foreseen
    at = np.array(rows, np.intp)
    predictions = Predictions(given.quality[at], given.length[at], given.from_prior[at])
    return type(foreseen)(predictions, None if vectors is None else vectors[at])
