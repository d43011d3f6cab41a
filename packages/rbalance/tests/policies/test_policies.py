"""rbalance.policies: each decision from what it is given, and what all of them keep to."""

from __future__ import annotations

import numpy as np
import pytest

from rbalance.cluster import article_cluster
from rbalance.errors import ConfigError
from rbalance.policies.batch import RequestBatch, RouteRequest
from rbalance.policies.dispatch import DISPATCHES, power_of_two, round_robin, shortest_queue
from rbalance.policies.infaas import cheapest_variant
from rbalance.policies.model_first import ModelFirst
from rbalance.policies.passthrough import Passthrough
from rbalance.policies.policy import Policy
from rbalance.policies.registry import Ingredients
from rbalance.policies.weights import Weights
from rbalance.predict.predictions import Predictions
from rbalance.simulator.baselines.avengers_pro import AvengersPro, fit_avengers_pro
from rbalance.simulator.baselines.best_route import cheapest_match, fit_best_route
from rbalance.simulator.baselines.cocktail import Cocktail, majority_quality
from rbalance.simulator.baselines.logistic import fit_logistic
from rbalance.simulator.baselines.route_llm import fit_route_llm
from rbalance.simulator.baselines.semantic_router import SemanticRouter, fit_semantic_router
from rbalance.simulator.baselines.tabi import Tabi
from rbalance.simulator.policy_registry import POLICIES, open_policy
from rbalance.state.instance_state import InstanceState
from tests.support.rbalance.synthetic_pool import CATEGORIES, synthetic_pool

POOL = synthetic_pool()
CLUSTER = article_cluster()
OF = Ingredients(CLUSTER, POOL.prior_of(CLUSTER), POOL.labelled(CLUSTER))
MODEL_OF = np.repeat(np.arange(4), [3, 5, 3, 2])


def batch(size: int = 6, **changes: object) -> RequestBatch:
    workload = POOL.workload(np.arange(size, dtype=float), CLUSTER)
    given = workload.batch(range(size))
    fields = {name: getattr(given, name) for name in RequestBatch.__dataclass_fields__}
    return RequestBatch(**{**fields, **changes})


def expecting(quality: list[list[float]], length: float = 100.0) -> RequestBatch:
    rows = np.array(quality, np.float32)
    predictions = Predictions(rows, np.full_like(rows, length), np.zeros(rows.shape, np.bool_))
    given = batch(len(rows))
    return RequestBatch(given.prompt_tokens, given.max_tokens, given.needs, predictions)


def columns(state: InstanceState) -> dict[str, np.ndarray]:
    names = ("running", "waiting", "pending_decode", "pending_prefill", "last_assigned")
    return {name: getattr(state.view, name).copy() for name in names}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_takes_open_instances_only_and_leaves_the_state_alone(name: str) -> None:
    policy = open_policy(name, OF)
    state = InstanceState(CLUSTER)
    for at in (0, 3, 8):
        state.drain(at)
    for at in (1, 4, 12):
        state.set_healthy(at, False)
    before = columns(state)
    found = policy.decide(batch(24), state, 0.0)
    assert found.instance.dtype == np.int32
    assert set(found.instance.tolist()) <= set(range(13)) - {0, 1, 3, 4, 8, 12}
    for name_, column in columns(state).items():
        np.testing.assert_array_equal(column, before[name_])


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_says_so_when_nothing_can_take_a_request(name: str) -> None:
    policy = open_policy(name, OF)
    state = InstanceState(CLUSTER)
    too_long = batch(2, prompt_tokens=np.array([10, 40_000], np.int32))
    found = policy.decide(too_long, state, 0.0).instance
    assert found[0] >= 0
    assert found[1] == -1
    lacking = batch(2, needs=np.array([0, 1], np.uint32))
    found = policy.decide(lacking, state, 0.0).instance
    assert found[0] >= 0
    assert found[1] == -1
    for at in range(13):
        state.set_healthy(at, False)
    assert policy.decide(batch(3), state, 0.0).instance.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_keeps_to_the_models_a_request_allows(name: str) -> None:
    policy = open_policy(name, OF)
    requests = [
        RouteRequest(key=at, prompt="p", prompt_tokens=5, max_tokens=9, models=(model,))
        for at, model in enumerate(CLUSTER.models)
    ]
    given = POOL.workload(np.arange(4.0), CLUSTER)
    made = RequestBatch.of(requests, CLUSTER.models, given.predictions, given.vectors)
    found = policy.decide(made, InstanceState(CLUSTER), 0.0).instance
    assert MODEL_OF[found].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_spreads_equal_requests_over_equal_instances(name: str) -> None:
    """The public complaint: ties always pick the same one."""
    policy = open_policy(name, OF)
    only = np.zeros((30, 4), np.bool_)
    only[:, 1] = True
    found = policy.decide(batch(30, allowed=only), InstanceState(CLUSTER), 0.0).instance
    counts = np.bincount(found, minlength=13)[3:8]
    assert counts.sum() == 30
    assert counts.min() >= 1


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_decides_without_vectors(name: str) -> None:
    found = open_policy(name, OF).decide(batch(4, vectors=None), InstanceState(CLUSTER), 0.0)
    assert (found.instance >= 0).all()


def test_an_unknown_policy_option_or_value_is_named() -> None:
    for text, says in (
        ("best", r"policy: 'best' is none of avengers-pro, .*"),
        ("best-route:t=0.5", r"policy.best-route: has no option 't'"),
        ("best-route:threshold=2", r"threshold: must be from 0 to 1, not 2"),
        ("best-route:threshold", r"'threshold' is not key=value"),
        ("passthrough:model=gpt", r"'gpt' is none of Qwen"),
        ("passthrough:dispatch=best", r"'best' is none of round-robin"),
        ("route-balance:weights=0.5/0.5/0.5", r"weights: quality, cost and latency sum to 1.5"),
        ("route-balance:weights=fast", r"neither three numbers nor one of quality"),
        ("route-balance:tpot=guess", r"'guess' is none of static"),
    ):
        with pytest.raises(ConfigError, match=says):
            open_policy(text, OF)
    with pytest.raises(ConfigError, match="trained on labelled prompts; there are none"):
        open_policy("best-route", Ingredients(CLUSTER, OF.prior))


def test_dispatches_differ_in_what_they_look_at() -> None:
    candidates = np.array([2, 4, 5])
    load = np.array([0.0, 0, 3, 0, 1, 1])
    last = np.array([9, 9, 1, 9, 3, 2])
    random = np.random.default_rng(0)
    assert round_robin(candidates, load, last, random) == 2
    assert shortest_queue(candidates, load, last, random) == 5
    assert shortest_queue(candidates, load, np.array([0, 0, 0, 0, 1, 2]), random) == 4
    drawn = [power_of_two(candidates, load, last, random) for _ in range(200)]
    assert set(drawn) == {4, 5}, "the loaded one never wins against another"
    assert power_of_two(np.array([2]), load, last, random) == 2


@pytest.mark.parametrize("name", sorted(DISPATCHES))
def test_a_model_without_an_open_instance_is_replaced_and_counted(name: str) -> None:
    state = InstanceState(CLUSTER)
    for at in (11, 12):
        state.drain(at)
    policy = ModelFirst(Passthrough(3), DISPATCHES[name])
    found = policy.decide(batch(5), state, 0.0)
    assert (found.instance < 11).all()
    assert found.rerouted == 5


def test_avengers_pro_ranks_models_by_cluster() -> None:
    router = AvengersPro(np.eye(2), np.array([[0.9, 0.1, 0, 0], [0.2, 0.3, 0.8, 0.1]]))
    found = router.models(batch(2, vectors=np.array([[1, 0], [0.6, 0.8]], np.float32)))
    assert found.model.tolist() == [0, 2]
    best = fit_avengers_pro(POOL.labelled(CLUSTER), performance_weight=1.0, clusters=4)
    cheap = fit_avengers_pro(POOL.labelled(CLUSTER), performance_weight=0.0, clusters=4)
    chosen = best.models(batch(40)).model
    assert np.bincount(chosen, minlength=4)[2:].sum() > 20
    assert set(cheap.models(batch(40)).model.tolist()) <= {0, 1}


def test_best_route_takes_the_cheapest_that_is_likely_to_match() -> None:
    match = np.array([[0.9, 0.9, 0.9], [0.3, 0.6, 0.9], [0.1, 0.1, 0.2]])
    cost = np.array([1.0, 3.0, 10.0])
    model, times = cheapest_match(match, cost, reference=2, threshold=0.5)
    assert model.tolist() == [0, 1, 2]
    assert times.tolist() == [1, 1, 1]
    model, times = cheapest_match(match, cost, reference=2, threshold=0.5, best_of=3)
    # 0.3 twice is 0.51, for 2 instead of 3
    assert list(zip(model.tolist(), times.tolist(), strict=True)) == [(0, 1), (0, 2), (2, 1)]
    strict = fit_best_route(POOL.labelled(CLUSTER), threshold=1.0)
    assert set(strict.models(batch(20)).model.tolist()) == {strict.reference}
    twice = fit_best_route(POOL.labelled(CLUSTER), threshold=0.9, best_of=3).models(batch(40))
    assert twice.also
    for row, models in twice.also.items():
        assert set(models) == {int(twice.model[row])}


def test_logistic_heads_learn_what_can_be_learned() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 3)).astype(np.float32)
    likely = 1 / (1 + np.exp(-(2 * x[:, :1] - x[:, 1:2])))
    heads = fit_logistic(x, np.hstack([likely, 1 - likely]), l2=0.0)
    np.testing.assert_allclose(heads.probability(x)[:, :1], likely, atol=1e-2)
    np.testing.assert_allclose(heads.weights[:, 0], [2, -1, 0], atol=0.05)
    np.testing.assert_allclose(heads.weights[:, 0], -heads.weights[:, 1], atol=0.05)


def test_route_llm_learns_where_the_strong_model_wins() -> None:
    data = POOL.labelled(CLUSTER)
    router = fit_route_llm(data, strong_share=0.4)
    rate = router.factors.win_rate(data.vectors)
    hard = np.array([category == "hard" for category in data.category])
    assert rate[hard].mean() > rate[~hard].mean() + 0.3
    strong = router.models(batch(len(rate), vectors=data.vectors)).model == router.strong
    assert strong.mean() == pytest.approx(0.4, abs=0.02)
    assert strong[hard].mean() > strong[~hard].mean()


def test_the_semantic_router_sends_categories_to_models_and_fails_open() -> None:
    class Service:
        uses_vectors = False

        def categories(self, batch: RequestBatch) -> list[str | None]:
            return ["easy", None, "never heard of"]

    router = SemanticRouter(Service(), {"easy": 1}, default=3)
    assert router.models(batch(3)).model.tolist() == [1, 3, 3]
    assert router.failed_open == 1
    fitted = fit_semantic_router(POOL.labelled(CLUSTER), tolerance=0.2)
    per_category = np.eye(8)[:3].astype(np.float32)
    by_name = dict(
        zip(CATEGORIES, fitted.models(batch(3, vectors=per_category)).model, strict=True)
    )
    assert by_name["easy"] < by_name["hard"], "hard prompts get a larger model"


def test_the_cascade_goes_on_until_a_model_is_trusted() -> None:
    quality = [[0.9, 0.0, 0.0, 0.9], [0.2, 0.0, 0.0, 0.9], [0.2, 0.0, 0.0, 0.1]]
    choice = Tabi((0, 3), trust=0.5).models(expecting(quality))
    assert choice.model.tolist() == [0, 0, 0]
    assert choice.then == {1: (3,), 2: (3,)}


def test_an_ensemble_is_as_large_as_the_target_needs() -> None:
    quality = np.array([0.7, 0.7, 0.7], np.float32)
    assert majority_quality(quality) == pytest.approx(0.7**3 + 3 * 0.7**2 * 0.3)
    cocktail = Cocktail((0, 1, 2, 3), target=0.75)
    rows = [[0.8, 0.9, 0.9, 0.9], [0.7, 0.7, 0.7, 0.1], [0.1, 0.1, 0.1, 0.6]]
    choice = cocktail.models(expecting(rows))
    assert choice.model.tolist() == [0, 0, 3]
    assert choice.also == {1: (1, 2)}


def test_the_cheapest_variant_that_is_accurate_and_fast_enough() -> None:
    accuracy = np.array([0.4, 0.6, 0.6, 0.7])
    seconds = np.array([1.0, 9.0, 2.0, 3.0])
    cost = np.array([1.0, 2.0, 2.0, 4.0])
    load = np.array([0.0, 0.0, 5.0, 1.0])

    def variant(least: float, latency_s: float) -> int:
        return cheapest_variant(accuracy, seconds, cost, load, least, latency_s)

    assert variant(0.0, 5.0) == 0
    assert variant(0.5, 10.0) == 1, "equally cheap: the less loaded"
    assert variant(0.5, 5.0) == 2
    assert variant(0.5, 1.0) == 2, "none is fast enough: the fastest of the accurate"
    assert variant(0.9, 5.0) == 3, "none is accurate enough: the most accurate"


def route_balance(weights: str, **options: str) -> Policy:
    more = "".join(f",{key}={value}" for key, value in options.items())
    return open_policy(f"route-balance:weights={weights}{more}", OF)


def test_route_balance_s_corners_are_quality_cost_and_latency() -> None:
    state = InstanceState(CLUSTER)
    given = expecting([[0.3, 0.5, 0.9, 0.7]] * 2)
    for weights, tier in (("1/0/0", 2), ("0/1/0", 0), ("0/0/1", 0)):
        found = route_balance(weights).decide(given, state, 0.0).instance
        assert MODEL_OF[found].tolist() == [tier, tier], weights
    for at, key in ((0, "a"), (1, "b"), (2, "c")):
        state.dispatch(key, at, prompt=20_000, predicted=4000, now=0.0)
    found = route_balance("0/0/1").decide(given, state, 0.0).instance
    assert not set(MODEL_OF[found].tolist()) & {0}, "the fast tier is full of long requests"


def test_route_balance_counts_predictions_it_could_not_use() -> None:
    given = expecting([[float("nan"), 0.5, 0.6, float("inf")]])
    found = route_balance("1/0/0").decide(given, InstanceState(CLUSTER), 0.0)
    assert found.unusable == 2
    assert found.instance[0] >= 0


def test_ceilings_of_a_request_are_kept() -> None:
    requests = [
        RouteRequest(key=0, prompt="", prompt_tokens=100, max_tokens=500, max_seconds=1.5),
        RouteRequest(key=1, prompt="", prompt_tokens=100, max_tokens=500, max_usd=0.0),
        RouteRequest(key=2, prompt="", prompt_tokens=100, max_tokens=500),
    ]
    known = expecting([[0.1, 0.2, 0.3, 0.9]] * 3).predictions
    made = RequestBatch.of(requests, CLUSTER.models, known)
    found = route_balance("1/0/0").decide(made, InstanceState(CLUSTER), 0.0).instance
    assert MODEL_OF[found[0]] == 0
    assert found[1] == -1
    assert MODEL_OF[found[2]] == 3


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_keeps_off_the_instances_a_request_bars(name: str) -> None:
    policy = open_policy(name, OF)
    barred = [tuple(range(12)), (12, 3, 99), (), tuple(range(13))]
    requests = [
        RouteRequest(key=at, prompt="p", prompt_tokens=5, max_tokens=9, not_on=not_on)
        for at, not_on in enumerate(barred)
    ]
    given = POOL.workload(np.arange(4.0), CLUSTER)
    made = RequestBatch.of(requests, CLUSTER.models, given.predictions, given.vectors)
    found = policy.decide(made, InstanceState(CLUSTER), 0.0).instance.tolist()
    assert found[0] == 12
    assert found[1] not in {12, 3, -1}
    assert found[2] >= 0
    assert found[3] == -1


def test_a_request_s_own_weights_count_for_it_alone() -> None:
    own = [None, Weights(1, 0, 0), None, Weights(0, 0, 1)]
    requests = [
        RouteRequest(key=at, prompt="p", prompt_tokens=5, max_tokens=900, weights=weights)
        for at, weights in enumerate(own)
    ]
    known = expecting([[0.3, 0.5, 0.9, 0.7]] * 4).predictions
    made = RequestBatch.of(requests, CLUSTER.models, known)
    policy, state = route_balance("0/1/0"), InstanceState(CLUSTER)
    assert MODEL_OF[policy.decide(made, state, 0.0).instance].tolist() == [0, 2, 0, 0]
    assert MODEL_OF[policy.scores(made, state.view).argmax(axis=1)].tolist() == [0, 2, 0, 0]  # type: ignore[attr-defined]
    assert RequestBatch.of(requests[:1], CLUSTER.models, known).weights is None
