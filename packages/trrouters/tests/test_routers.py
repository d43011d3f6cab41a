"""Each algorithm's route and send against a plain definition."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from tests.support.trrouters.seen_request import SeenRequest, step_of
from trrouters import BaseRouter, RouterContext
from trrouters.algorithms.bernoulli import Bernoulli
from trrouters.algorithms.fixed import Fixed
from trrouters.algorithms.me import MixtureEnsemble
from trrouters.algorithms.r_stitch import RStitch, normalized_entropy
from trrouters.draws import ROUTING_STREAM, uniform

torch = pytest.importorskip("torch")

FloatRows = NDArray[np.float32]
ROWS = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(2, 40)),
    elements=st.one_of(st.floats(-30, 30, width=32), st.just(-math.inf)),
).map(lambda rows: np.where(np.isneginf(rows).all(axis=1, keepdims=True), 0, rows))


def context(index: int = 0, n_models: int = 2) -> RouterContext:
    return RouterContext(index, n_models, vocab_size=100)


def destinations(router: BaseRouter, requests: list[SeenRequest], rows: Any = None) -> list[int]:
    logits = None if rows is None else torch.from_numpy(np.asarray(rows, dtype=np.float32))
    result = router.route(step_of(requests, logits))
    assert result.shape == (len(requests),)
    return [int(destination) for destination in result]


def request(prompt: int = 3, output: int = 1, **fields: Any) -> SeenRequest:
    """`prompt` and `output` tokens, all different."""
    return SeenRequest(list(range(prompt)), list(range(50, 50 + output)), **fields)


def plain_entropy(row: FloatRows) -> float:
    weights = np.exp(row.astype(np.float64) - row.max())
    p = weights / weights.sum()
    return -sum(float(x) * math.log(x) for x in p if x > 0) / math.log(len(row))


# --- R-Stitch


@given(ROWS)
def test_entropy_is_that_of_the_plain_definition(rows: FloatRows) -> None:
    """As far as float32 goes: half a unit of a sum near 30 is 1e-6, which log 2 makes 1.4e-6."""
    entropy = normalized_entropy(torch.from_numpy(rows)).numpy()
    assert entropy == pytest.approx([plain_entropy(row) for row in rows], abs=1e-5)
    assert entropy.min() >= -1e-5
    assert entropy.max() <= 1.0 + 1e-5


@pytest.mark.parametrize("vocab", [2, 257, 1000, 49_152, 49_157])
def test_entropy_of_a_row_does_not_depend_on_its_batch(vocab: int) -> None:
    """Bit for bit: else what is generated would depend on who else is being served."""
    rows = torch.from_numpy(
        np.random.default_rng(vocab).normal(0, 4, (16, vocab)).astype(np.float32)
    )
    alone = torch.cat([normalized_entropy(row[None]) for row in rows])
    for batch in range(2, 17):
        start = 16 - batch  # so that a row also changes its place
        assert torch.equal(normalized_entropy(rows[start:]), alone[start:]), batch


@given(ROWS, st.floats(-0.5, 1.5), st.sampled_from([0, 1]))
def test_r_stitch_leaves_model_0_when_uncertain_and_model_1_when_certain(
    rows: FloatRows, tau: float, index: int
) -> None:
    router = RStitch(context(index), tau=tau)
    went = destinations(router, [request() for _ in rows], rows)
    for row, destination in zip(rows, went, strict=True):
        entropy = plain_entropy(row)
        if abs(entropy - tau) > 1e-5:
            assert destination == (entropy > tau if index == 0 else entropy <= tau)


@pytest.mark.parametrize(("tau", "from_0", "from_1"), [(-0.01, 1, 0), (1.01, 0, 1)])
def test_r_stitch_beyond_the_edges_of_tau(tau: float, from_0: int, from_1: int) -> None:
    rows = [[0.0, 0.0, 0.0, 0.0], [9.0, -math.inf, -math.inf, -math.inf]]
    two = [request(), request()]
    assert destinations(RStitch(context(0), tau=tau), two, rows) == [from_0] * 2
    assert destinations(RStitch(context(1), tau=tau), two, rows) == [from_1] * 2


def test_r_stitch_an_entropy_of_exactly_tau_is_certain() -> None:
    rows = np.array([[3.0, 1.0, 0.5, 0.0], [9.0, -math.inf, -math.inf, -math.inf]], np.float32)
    for row, tau in zip(rows, normalized_entropy(torch.from_numpy(rows)).tolist(), strict=True):
        assert destinations(RStitch(context(0), tau=tau), [request()], [row]) == [0]
        assert destinations(RStitch(context(1), tau=tau), [request()], [row]) == [1]


def test_r_stitch_never_sends_a_row_without_a_distribution_to_the_large_model() -> None:
    rows = [[math.nan, 1.0, 2.0], [-math.inf] * 3, [math.inf, 0.0, 0.0], [0.0, 0.0, 0.0]]
    four = [request() for _ in rows]
    assert destinations(RStitch(context(0)), four, rows) == [0, 0, 0, 1]
    assert destinations(RStitch(context(1)), four, rows) == [1, 1, 1, 0]


@given(st.integers(1, 5), st.integers(1, 6), st.booleans(), st.data())
def test_r_stitch_send(prompt: int, output: int, keep: bool, data: st.DataObject) -> None:
    """Model 0 drops its token; model 1 keeps it if told to, or if the visit has no other."""
    known = data.draw(st.integers(0, prompt + output - 1))
    visit = data.draw(st.integers(1, output))
    arrived = prompt + output - visit
    req = request(prompt, output, peer_locs=(0, known), arrived_loc=arrived)
    everything = req.origin_input_ids + req.output_ids

    sent = RStitch(context(0), keep_return_token=keep).send(req)
    assert (list(sent.token_ids), sent.loc) == (everything[known:-1], len(everything) - 1)

    sent = RStitch(context(1), keep_return_token=keep).send(req)
    kept = everything if keep or visit == 1 else everything[:-1]
    assert (list(sent.token_ids), sent.loc) == (kept[known:], len(kept))


# --- Bernoulli


@given(st.integers(0, (1 << 64) - 1), st.integers(1, 9), st.integers(1, 9), st.floats(0, 1))
def test_bernoulli_draws_at_the_position_of_the_token(
    seed: int, prompt: int, output: int, p: float
) -> None:
    req = request(prompt, output, seed=seed)
    expected = uniform(seed, prompt + output - 1, ROUTING_STREAM) < p
    assert destinations(Bernoulli(context(), p=p), [req]) == [expected]


@pytest.mark.parametrize("p", [0.0, 0.1, 0.35, 1.0])
def test_bernoulli_rate(p: float) -> None:
    n = 8000
    requests = [request(output=1 + i % 20, seed=i // 20) for i in range(n)]
    router = Bernoulli(context(), p=p)
    went = destinations(router, requests)
    assert abs(sum(went) - n * p) <= 2.58 * math.sqrt(n * p * (1 - p)), "1 %"
    assert destinations(router, requests[::-1]) == went[::-1]


@given(st.integers(1, 5), st.integers(1, 5))
def test_bernoulli_large_model_returns_after_its_tokens(tokens_per_call: int, visit: int) -> None:
    router = Bernoulli(context(1), tokens_per_call=tokens_per_call)
    req = request(2, visit + 4, arrived_loc=6)
    assert destinations(router, [req]) == [visit >= tokens_per_call]


def test_bernoulli_drops_the_small_models_token_and_keeps_the_large_ones() -> None:
    req = request(2, 3, peer_locs=(0, 2))
    assert list(Bernoulli(context(0)).send(req).token_ids) == [50, 51]
    assert list(Bernoulli(context(1)).send(req).token_ids) == [50, 51, 52]


# --- ME


@pytest.mark.parametrize(
    ("weights", "n_models"),
    [
        (None, 2),
        ([1.0, 3.0], 2),
        ([0.0, 1.0], 2),
        ([1.0, 0.0], 2),
        (None, 3),
        ([1.0, 2.0, 3.0], 3),
        ([5.0, 0.0, 1.0], 3),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["first token", "later tokens"])
def test_me_draws_follow_the_weights(
    weights: list[float] | None, n_models: int, first: bool
) -> None:
    n = 6000
    router = MixtureEnsemble(context(0, n_models), weights=weights)
    if first:
        drawn = Counter(router.entry(seed) for seed in range(n))
    else:
        requests = [request(output=1 + i % 30, seed=i // 30) for i in range(n)]
        drawn = Counter(destinations(router, requests))
    given_weights = weights or [1.0] * n_models
    chi_square = 0.0
    for model, weight in enumerate(given_weights):
        expected = n * weight / sum(given_weights)
        if weight == 0:
            assert drawn[model] == 0
        else:
            chi_square += (drawn[model] - expected) ** 2 / expected
    assert chi_square < {2: 6.63, 3: 9.21}[n_models], "1 %"


@given(st.integers(0, (1 << 64) - 1), st.integers(1, 50), st.integers(1, 4))
def test_me_the_draw_is_the_same_wherever_it_is_made(seed: int, output: int, n_models: int) -> None:
    n_models += 1
    req = request(output=output, seed=seed)
    routers = [MixtureEnsemble(context(i, n_models)) for i in range(n_models)]
    drawn = {(r.index + destinations(r, [req])[0]) % n_models for r in routers}
    assert len(drawn) == 1
    assert len({r.entry(seed) for r in routers}) == 1


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1e300), min_size=2, max_size=5).filter(lambda w: sum(w) > 0))
def test_me_any_weights_draw_a_model_that_has_one(weights: list[float]) -> None:
    router = MixtureEnsemble(context(0, len(weights)), weights=weights)
    assert all(weights[router.entry(seed)] > 0 for seed in range(50))


def test_me_always_keeps_the_token() -> None:
    router = MixtureEnsemble(context(0, 3))
    sent = router.send(request(2, 3, peer_locs=(0, 0, 4), peer=2, ends=True))
    assert (list(sent.token_ids), sent.loc, sent.finished) == ([52], 5, True)


# --- Fixed


@given(st.integers(1, 4), st.integers(0, 1000), st.data())
def test_fixed_starts_at_its_model_and_stays(n: int, seed: int, data: st.DataObject) -> None:
    model = data.draw(st.integers(0, n - 1))
    router = Fixed(context(model, n), model=model)
    assert router.entry(seed) == model
    assert destinations(router, [request(), request()]) == [0, 0]
