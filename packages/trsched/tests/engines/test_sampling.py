"""Sampling against the plain definition in float64, token by token."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from trrouters.draws import uniform
from trsched.engines.sampling import sample, token_logprobs
from trsched.request import SamplingParams

Row = NDArray[np.float32]


def plain_sample(logits: Row, params: SamplingParams, position: int, model: int) -> int:
    """Sort descending (ties: lower id), top-k, top-p, inverse CDF in that order.

    Without filters the inverse CDF goes in order of the ids.
    """
    row = [float(x) for x in logits]
    ids = list(range(len(row)))
    if params.temperature == 0.0:
        return max(ids, key=lambda i: (row[i], -i))
    peak = max(row)
    weights = [math.exp((x - peak) / params.temperature) for x in row]
    if params.top_k or params.top_p < 1.0:
        ids.sort(key=lambda i: (-row[i], i))
        if params.top_k:
            ids = ids[: params.top_k]
        mass = math.fsum(weights[i] for i in ids)
        kept, reached = 0, 0.0
        while kept == 0 or reached < params.top_p * mass:
            reached += weights[ids[kept]]
            kept += 1
            if kept == len(ids):
                break
        ids = ids[:kept]
    target = uniform(params.seed, position, model) * math.fsum(weights[i] for i in ids)
    reached = 0.0
    for i in ids:
        reached += weights[i]
        if target < reached:
            return i
    return next(i for i in reversed(ids) if weights[i] > 0)


FILTERS = [
    (1.0, 1.0, 0),
    (0.7, 1.0, 0),
    (1.5, 1.0, 0),
    (1.0, 0.9, 0),
    (0.8, 0.5, 0),
    (1.0, 1.0, 5),
    (1.0, 1.0, 1),
    (1.2, 0.95, 40),
    (3.0, 0.999, 100_000),
    (1.0, 1e-9, 0),
]


@pytest.mark.parametrize(("temperature", "top_p", "top_k"), FILTERS)
@pytest.mark.parametrize("vocab", [1, 2, 255, 256, 257, 1000, 3000])
def test_many_draws(vocab: int, temperature: float, top_p: float, top_k: int) -> None:
    rng = np.random.default_rng(vocab)
    params = SamplingParams(temperature, top_p, top_k, seed=vocab + 1)
    for position in range(30):
        logits = rng.normal(0, 3, vocab).astype(np.float32)
        expected = plain_sample(logits, params, position, 1)
        assert sample(logits, params, position, 1) == expected


@pytest.mark.parametrize(("temperature", "top_p", "top_k"), FILTERS)
def test_many_draws_among_ties_and_impossible_tokens(
    temperature: float, top_p: float, top_k: int
) -> None:
    rng = np.random.default_rng(5)
    params = SamplingParams(temperature, top_p, top_k, seed=6)
    for position in range(150):
        logits = rng.integers(-3, 4, int(rng.integers(1, 900))).astype(np.float32)
        logits[rng.random(len(logits)) < 0.3] = -np.inf
        logits[rng.integers(len(logits))] = 2.0
        token = sample(logits, params, position, 0)
        assert token == plain_sample(logits, params, position, 0)
        assert logits[token] > -np.inf


LOGITS = hnp.arrays(
    np.float32, st.integers(1, 700), elements=st.sampled_from([-np.inf, -3.0, 0.0, 0.5, 1.0, 4.0])
).filter(lambda row: bool(row.max() > -np.inf))
PARAMS = st.builds(
    SamplingParams,
    temperature=st.floats(0, 100),
    top_p=st.floats(1e-6, 1.0),
    top_k=st.one_of(st.just(0), st.integers(1, 800)),
    seed=st.integers(0, (1 << 64) - 1),
)


@given(LOGITS, PARAMS, st.integers(0, 1000))
def test_what_may_be_sampled(logits: Row, params: SamplingParams, position: int) -> None:
    """Only possible tokens, and only those that top-k and top-p leave."""
    token = sample(logits, params, position, 0)
    assert logits[token] > -np.inf
    order = np.lexsort((np.arange(len(logits)), -logits))
    rank = int(np.flatnonzero(order == token)[0])
    if params.top_k:
        assert rank < params.top_k
    if params.temperature >= 0.01 and params.top_p < 0.999:
        ids = order[: params.top_k or None]
        p = np.exp((logits[ids].astype(np.float64) - logits.max()) / params.temperature)
        before = p[:rank].sum() / p.sum()
        assert rank == 0 or before < params.top_p + 1e-6


@given(LOGITS, st.integers(0, 1000))
def test_greedy_takes_the_first_of_the_largest(logits: Row, position: int) -> None:
    token = sample(logits, SamplingParams(temperature=0.0, top_p=0.5, top_k=3), position, 0)
    assert token == np.flatnonzero(logits == logits.max())[0]


@pytest.mark.parametrize("temperature", [1e-300, 1e-46, 1e-40, 1e-30, 1e-6])
@pytest.mark.parametrize(("top_p", "top_k"), [(1.0, 0), (0.5, 0), (1.0, 2)])
def test_the_coldest_temperatures_are_greedy(temperature: float, top_p: float, top_k: int) -> None:
    logits = np.array([1.0, -np.inf, 3.0, 2.9999, -5.0] * 200, dtype=np.float32)
    logits[700] = 3.5
    for seed in range(20):
        assert sample(logits, SamplingParams(temperature, top_p, top_k, seed), 9, 0) == 700


def test_the_hottest_temperature_is_nearly_uniform() -> None:
    logits = np.array([0.0, 1.0, -np.inf, 2.0], dtype=np.float32)
    n = 3000
    drawn = np.bincount(
        [sample(logits, SamplingParams(100.0, seed=seed), 0, 0) for seed in range(n)], minlength=4
    )
    assert drawn[2] == 0
    assert ((drawn[[0, 1, 3]] - n / 3) ** 2 / (n / 3)).sum() < 9.21, "chi-square, 1 %"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4, 1e38])
def test_logits_of_any_size(scale: float) -> None:
    logits = (np.linspace(-1, 1, 999) * scale).astype(np.float32)
    for params in (SamplingParams(1.0), SamplingParams(1.0, 0.9), SamplingParams(0.01, 1.0, 7)):
        for position in range(10):
            token = sample(logits, params, position, 0)
            assert token == plain_sample(logits, params, position, 0)


@given(PARAMS, st.floats(-100, 100, width=32))
def test_one_token_vocabulary(params: SamplingParams, logit: float) -> None:
    assert sample(np.array([logit], dtype=np.float32), params, 3, 0) == 0


def test_draws_depend_on_seed_position_and_model() -> None:
    logits = np.zeros(1000, dtype=np.float32)
    draws = {
        sample(logits, SamplingParams(seed=seed), position, model)
        for seed, position, model in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    }
    assert len(draws) == 4


@given(
    hnp.arrays(
        np.float32,
        st.integers(1, 60),
        elements=st.one_of(st.floats(-50, 50, width=32), st.just(-math.inf)),
    ).filter(lambda row: bool(row.max() > -np.inf)),
    st.integers(0, 20),
    st.data(),
)
def test_logprobs_are_the_log_softmax(logits: Row, top: int, data: st.DataObject) -> None:
    token = data.draw(st.integers(0, len(logits) - 1))
    row = logits.astype(np.float64)
    expected = row - row.max() - math.log(math.fsum(np.exp(row - row.max())))
    got = token_logprobs(logits, token, top)
    assert got.logprob == pytest.approx(expected[token], abs=1e-9)
    assert len(got.top) == min(top, len(logits))
    assert [logprob for _, logprob in got.top] == pytest.approx(
        sorted(expected, reverse=True)[:top], abs=1e-9
    )
    for token_id, logprob in got.top:
        assert logprob == pytest.approx(expected[token_id], abs=1e-9)
    ids = [token_id for token_id, _ in got.top]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids, key=lambda i: (-row[i], i))
