"""rbalance.decide.balancer: decisions keep coming, whatever predictors, policies and callers do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from rbalance.cluster import article_cluster
from rbalance.decide.balancer import Balancer, Routed
from rbalance.decide.balancer_stats import BalancerStats
from rbalance.decide.batching import BatchLimits, FixedSizing
from rbalance.decide.foresight import Foreseen, Foresight
from rbalance.errors import ConfigError, NoInstanceError
from rbalance.policies.batch import RequestBatch, RouteRequest
from rbalance.policies.policy import Placements
from rbalance.policies.registry import Ingredients
from rbalance.policies.weights import Weights
from rbalance.predict.predictions import Predictions, Prior
from rbalance.simulator.policy_registry import open_policy
from rbalance.state.instance_state import InstanceState
from trcore import WhyNot

CLUSTER = article_cluster()
PRIOR = Prior(
    CLUSTER.models,
    np.array([0.3, 0.4, 0.5, 0.6], np.float32),
    np.array([50, 60, 70, 80], np.float32),
)


def request(key: Any, **changes: Any) -> RouteRequest:
    given = {"prompt": f"prompt {key}", "prompt_tokens": 10, "max_tokens": 100}
    return RouteRequest(key=key, **{**given, **changes})


@dataclass
class Watched:
    """A policy that remembers what it was asked and fails where it is told to."""

    uses_vectors: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    fails_for: str = ""
    batches: list[RequestBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inner = open_policy("route-balance", Ingredients(CLUSTER, PRIOR))

    def decide(self, batch: RequestBatch, state: InstanceState, now: float) -> Placements:
        self.batches.append(batch)
        if self.fails_for in batch.prompts:
            raise RuntimeError("cannot stand this prompt")
        return self.inner.decide(batch, state, now)

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        pass


@dataclass
class Bench:
    policy: Any = field(default_factory=lambda: Watched(fails_for="never"))
    stats: BalancerStats = field(default_factory=BalancerStats)
    state: InstanceState = field(default_factory=lambda: InstanceState(CLUSTER))

    def open(
        self, predict: Any = None, deadline_s: float = 60.0, size: int = 8, instant: bool = False
    ) -> Balancer:
        foresight = Foresight(
            predict or (lambda prompts: Foreseen(PRIOR.predictions(len(prompts)))),
            PRIOR,
            deadline_s,
            self.stats,
            instant,
        )
        sizing = FixedSizing(BatchLimits(size, 0.02))
        return Balancer(self.state, self.policy, foresight, self.stats, sizing)


async def ask(balancer: Balancer, *requests: RouteRequest) -> list[Routed | BaseException]:
    asked = [balancer.route(each) for each in requests]
    return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 30)


@pytest.mark.asyncio
async def test_requests_are_decided_in_batches_and_are_then_in_flight() -> None:
    bench = Bench()
    async with bench.open() as balancer:
        found = await ask(balancer, *(request(key) for key in range(20)))
    assert all(isinstance(each, Routed) for each in found)
    assert len(bench.state.in_flight) == 20
    assert bench.stats.requests == 20
    sizes = [len(batch) for batch in bench.policy.batches]
    assert sum(sizes) == 20
    assert max(sizes) <= 8
    assert bench.stats.batches == len(sizes) < 20
    for key in range(20):
        assert bench.state.release(key, 0.0) is not None
    assert not bench.state.view.waiting.any()


@pytest.mark.asyncio
async def test_an_answer_says_why_and_how_long_an_answer_is_expected() -> None:
    bench = Bench()
    weights = Weights(0.2, 0.3, 0.5)
    async with bench.open() as balancer:
        asked = [request(1, weights=weights), request(2, models=(PRIOR.models[1],), max_tokens=20)]
        free, bound = await ask(balancer, *asked)
    assert isinstance(free, Routed)
    assert isinstance(bound, Routed)
    for routed, tokens in ((free, 50), (bound, 20)):
        assert routed.predicted_tokens == tokens
        tier, terms = CLUSTER.instances[routed.instance], routed.terms
        assert terms is not None
        assert terms.quality == pytest.approx(PRIOR.quality[CLUSTER.models.index(tier.model)])
        assert terms.usd == pytest.approx((10 * tier.price_in + tokens * tier.price_out) / 1e6)
        assert terms.seconds == pytest.approx(tier.tpot_s * tokens + 10 / tier.prefill_rate)
    assert free.terms is not None
    parts = zip(weights, (free.terms.quality, free.terms.cost, free.terms.latency), strict=True)
    assert free.terms.score == pytest.approx(sum(share * term for share, term in parts))
    assert bound.terms is not None
    assert (bound.terms.cost, bound.terms.latency) == (1, 1), "equal candidates"


@pytest.mark.asyncio
async def test_a_policy_without_scores_gives_no_terms() -> None:
    bench = Bench()
    bench.policy.inner = open_policy("passthrough", Ingredients(CLUSTER, PRIOR))
    async with bench.open() as balancer:
        (routed,) = await ask(balancer, request(1))
    assert isinstance(routed, Routed)
    assert routed.terms is None
    assert routed.predicted_tokens == 50


@pytest.mark.asyncio
async def test_one_bad_request_fails_alone() -> None:
    bench = Bench(Watched(fails_for="prompt 3"))
    async with bench.open() as balancer:
        found = await ask(balancer, *(request(key) for key in range(8)))
    assert isinstance(found[3], RuntimeError)
    assert [isinstance(each, Routed) for each in found].count(True) == 7
    assert bench.stats.bad_requests == 1
    assert "cannot stand" in bench.stats.last_failure
    assert len(bench.state.in_flight) == 7


@pytest.mark.asyncio
async def test_a_key_twice_in_flight_fails_the_second_time_only() -> None:
    bench = Bench()
    async with bench.open() as balancer:
        found = await ask(balancer, request("a"), request("b"), request("a"), request("c"))
    assert [isinstance(each, Routed) for each in found] == [True, True, False, True]
    assert isinstance(found[2], ValueError)
    assert len(bench.state.in_flight) == 3


@pytest.mark.asyncio
async def test_a_predictor_that_hangs_costs_its_deadline_once() -> None:
    bench, release, calls = Bench(), threading.Event(), []

    def hang(prompts: Sequence[str]) -> Foreseen:
        calls.append(len(prompts))
        release.wait(60)
        return Foreseen(PRIOR.predictions(len(prompts)))

    try:
        async with bench.open(hang, deadline_s=0.05) as balancer:
            assert isinstance((await ask(balancer, request(1)))[0], Routed)
            assert isinstance((await ask(balancer, request(2)))[0], Routed)
            assert calls == [1], "nobody waits behind the call that hangs"
            assert bench.stats.predictor_late == 2
    finally:
        release.set()
    assert all(batch.predictions.from_prior.all() for batch in bench.policy.batches)


@pytest.mark.asyncio
async def test_an_instant_predictor_is_asked_without_a_thread() -> None:
    bench, threads = Bench(), []

    def predict(prompts: Sequence[str]) -> Foreseen:
        threads.append(threading.current_thread())
        return Foreseen(PRIOR.predictions(len(prompts)))

    async with bench.open(predict, instant=True) as balancer:
        found = await ask(balancer, *(request(key) for key in range(20)))
    assert all(isinstance(each, Routed) for each in found)
    assert set(threads) == {threading.current_thread()}


@pytest.mark.asyncio
async def test_who_asks_meanwhile_waits_for_a_turn_and_gets_predictions_too() -> None:
    bench, entered, go_on = Bench(), threading.Event(), threading.Event()

    def predict(prompts: Sequence[str]) -> Foreseen:
        entered.set()
        go_on.wait(60)
        return Foreseen(PRIOR.predictions(len(prompts)))

    async with bench.open(predict) as balancer:
        routing = asyncio.create_task(balancer.route(request(1)))
        await asyncio.to_thread(entered.wait, 60)
        explaining = asyncio.create_task(balancer.explain(request(2)))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait_for(asyncio.gather(routing, explaining), 30)
    assert bench.stats.predictor_late == 0


@pytest.mark.asyncio
@pytest.mark.parametrize("instant", [False, True])
async def test_a_predictor_that_fails_is_replaced_by_the_prior(
    caplog: pytest.LogCaptureFixture, instant: bool
) -> None:
    bench = Bench()

    def fail(prompts: Sequence[str]) -> Foreseen:
        raise MemoryError("embedder")

    async with bench.open(fail, instant=instant) as balancer:
        found = await ask(balancer, request(1), request(2))
    assert all(isinstance(each, Routed) for each in found)
    assert bench.stats.predictor_failed >= 1
    assert "deciding by the prior" in caplog.text


@pytest.mark.asyncio
async def test_a_failure_outside_the_policy_reaches_who_waits_and_the_next_ones_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()

    def fail(now: float) -> None:
        raise OverflowError("the clock")

    async with bench.open() as balancer:
        with monkeypatch.context() as broken:
            broken.setattr(bench.state, "refresh", fail)
            found = await ask(balancer, request(1), request(2))
        assert all(isinstance(each, OverflowError) for each in found)
        (after,) = await ask(balancer, request(3))
    assert isinstance(after, Routed)
    assert len(bench.state.in_flight) == 1
    assert "the clock" in bench.stats.last_failure
    assert "a batch was not decided" in caplog.text


@pytest.mark.asyncio
async def test_what_nothing_can_take_is_told_why() -> None:
    bench = Bench()
    bench.state.drain(0)
    async with bench.open() as balancer:
        wide, fine = await ask(
            balancer, request(1, prompt_tokens=99_000, not_on=(0, 3, 4)), request(2)
        )
    assert isinstance(wide, NoInstanceError)
    assert "of 13, 12 are open; of these 12 have no room for 99100 tokens, 0 lack" in str(wide)
    assert "capability and 2 are excluded; allowed models: all" in str(wide)
    no_room, excluded = WhyNot.NO_ROOM, WhyNot.NO_ROOM | WhyNot.EXCLUDED
    assert wide.why == {
        **dict.fromkeys(range(13), no_room),
        0: excluded | WhyNot.DRAINING,
        3: excluded,
        4: excluded,
    }
    assert isinstance(fine, Routed)
    assert bench.stats.no_instance == 1
    assert bench.stats.stale_instances == 13, "nobody has told of itself"


@pytest.mark.asyncio
async def test_ceilings_are_told_of_a_policy_that_keeps_to_them() -> None:
    bench = Bench()
    bench.policy = open_policy("route-balance", Ingredients(CLUSTER, PRIOR))
    async with bench.open() as balancer:
        (dear,) = await ask(balancer, request(1, max_usd=0.0, models=CLUSTER.models[:1]))
        (slow,) = await ask(balancer, request(2, max_seconds=0.0))
    assert isinstance(dear, NoInstanceError)
    assert dear.why[0] == WhyNot.ABOVE_MAX_USD
    assert dear.why[12] == WhyNot.ABOVE_MAX_USD | WhyNot.MODEL_NOT_ALLOWED
    assert isinstance(slow, NoInstanceError)
    assert set(slow.why.values()) == {WhyNot.ABOVE_MAX_SECONDS}
    assert str(slow).endswith("allowed models: all; ceilings: inf USD, 0 s")


@pytest.mark.asyncio
async def test_a_caller_that_leaves_is_not_dispatched() -> None:
    bench, entered, go_on = Bench(), threading.Event(), threading.Event()

    def predict(prompts: Sequence[str]) -> Foreseen:
        entered.set()
        go_on.wait(60)
        return Foreseen(PRIOR.predictions(len(prompts)))

    async with bench.open(predict) as balancer:
        leaving = asyncio.create_task(balancer.route(request("leaves")))
        await asyncio.to_thread(entered.wait, 60)
        staying = asyncio.create_task(balancer.route(request("stays")))
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        go_on.set()
        assert isinstance(await asyncio.wait_for(staying, 30), Routed)
    assert "leaves" not in bench.state.in_flight
    assert bench.stats.withdrawn == 1


@pytest.mark.asyncio
async def test_predictions_that_are_not_finite_are_counted_and_harmless() -> None:
    bench = Bench()

    def predict(prompts: Sequence[str]) -> Foreseen:
        known = PRIOR.predictions(len(prompts))
        bad = known.length.copy()
        bad[:, 0] = np.nan
        return Foreseen(Predictions(known.quality, bad, known.from_prior))

    async with bench.open(predict) as balancer:
        found = await ask(balancer, *(request(key) for key in range(5)))
    assert all(isinstance(each, Routed) for each in found)
    assert bench.stats.unusable_predictions == 5


@pytest.mark.asyncio
async def test_who_still_waits_at_the_end_is_cancelled() -> None:
    bench, go_on = Bench(), threading.Event()

    def predict(prompts: Sequence[str]) -> Foreseen:
        go_on.wait(60)
        return Foreseen(PRIOR.predictions(len(prompts)))

    async with bench.open(predict) as balancer:
        tasks = [asyncio.create_task(balancer.route(request(key))) for key in range(3)]
        await asyncio.sleep(0)
    go_on.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in found)
    assert len(bench.state.in_flight) == 0
    with pytest.raises(RuntimeError, match="not running"):
        await balancer.route(request("late"))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"prompt_tokens": -1}, "prompt_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"needs": -1}, "needs"),
        ({"max_usd": float("nan")}, "max_usd"),
        ({"max_seconds": -1.0}, "max_seconds"),
        ({"not_on": (2, -1)}, "not_on"),
    ],
)
def test_requests_that_cannot_be_are_refused_where_they_are_made(
    changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError, match=field):
        request(1, **changes)
