"""The engine without weights: latencies by its formula, tokens by (seed, position, index)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trsched.engines.clock import VirtualClock
from trsched.engines.profile import ProfileEngine, profile_token
from trsched.errors import EngineError
from trsched.plan.config import ProfileModel
from trsched.request import SamplingParams

SEEDS = st.integers(0, (1 << 64) - 1)


def make_engine(
    *,
    step_ms: list[float] | None = None,
    extend_token_ms: float = 0.0,
    eos_rate: float = 0.0,
    index: int = 0,
    sequences: int = 8,
) -> tuple[ProfileEngine, VirtualClock]:
    model = ProfileModel("p", step_ms or [1.0], extend_token_ms=extend_token_ms, eos_rate=eos_rate)
    clock = VirtualClock()
    engine = ProfileEngine(model, "test", index=index, sequences=sequences, context=64, clock=clock)
    return engine, clock


@given(
    st.lists(st.floats(0.1, 100), min_size=1, max_size=4),
    st.floats(0, 5),
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
    st.lists(st.integers(1, 5), min_size=8, max_size=8),
)
def test_latency(
    step_ms: list[float], extend_token_ms: float, prompts: list[int], suffixes: list[int]
) -> None:
    """step_ms[n], the last beyond it, and extend_token_ms for each further token of a sequence."""
    engine, clock = make_engine(step_ms=step_ms, extend_token_ms=extend_token_ms)
    seqs = [engine.start([65] * length, SamplingParams()) for length in prompts]
    step = step_ms[min(len(seqs), len(step_ms)) - 1]

    prefill = (step + sum(length - 1 for length in prompts) * extend_token_ms) * 1e-3
    assert engine.step(seqs).duration == pytest.approx(prefill)
    assert clock.now() == pytest.approx(prefill)

    for seq, suffix in zip(seqs, suffixes, strict=False):
        engine.append(seq, [66] * suffix)
    new = suffixes[: len(seqs)]
    extend = (step + sum(count - 1 for count in new) * extend_token_ms) * 1e-3
    assert engine.step(seqs).duration == pytest.approx(extend)
    assert clock.now() == pytest.approx(prefill + extend)


@given(SEEDS, st.integers(0, 500), st.integers(0, 5), st.floats(0, 1))
def test_tokens_are_printable_or_the_end(
    seed: int, position: int, index: int, eos_rate: float
) -> None:
    model = ProfileModel("p", [1.0], eos_rate=eos_rate)
    token = profile_token(model, index, seed, position)
    assert token == 256 or 32 <= token < 127
    assert token == profile_token(model, index, seed, position)


def test_tokens_depend_on_seed_position_and_index() -> None:
    model = ProfileModel("p", [1.0])
    base = [profile_token(model, 0, 0, position) for position in range(40)]
    assert len(set(base)) > 10
    assert base != [profile_token(model, 1, 0, position) for position in range(40)]
    assert base != [profile_token(model, 0, 1, position) for position in range(40)]


@pytest.mark.parametrize("rate", [0.0, 0.2, 1.0])
def test_rate_of_ends(rate: float) -> None:
    model = ProfileModel("p", [1.0], eos_rate=rate)
    n = 3000
    ends = sum(profile_token(model, 0, seed, 3) == 256 for seed in range(n))
    assert abs(ends - n * rate) <= 2.58 * (n * rate * (1 - rate)) ** 0.5, "1 %"


@given(st.lists(st.tuples(SEEDS, st.integers(1, 20)), min_size=1, max_size=8), st.integers(0, 3))
def test_a_step_makes_these_tokens_whatever_the_batch(
    requests: list[tuple[int, int]], index: int
) -> None:
    engine, _ = make_engine(index=index)
    model = ProfileModel("p", [1.0])
    seqs = [engine.start([65] * length, SamplingParams(seed=seed)) for seed, length in requests]
    result = engine.step(seqs)
    assert list(result.seqs) == seqs
    assert result.sampled.dtype == np.int64
    assert result.sampled.tolist() == [
        profile_token(model, index, seed, length) for seed, length in requests
    ]


def test_truncate_steps_a_position_again() -> None:
    engine, _ = make_engine()
    seq = engine.start([1, 2, 3], SamplingParams(seed=9))
    first = engine.step([seq]).sampled[0]
    engine.append(seq, [int(first)])
    engine.step([seq])
    engine.truncate(seq, 2)
    engine.append(seq, [3])
    assert engine.step([seq]).sampled[0] == first


def test_logprobs_only_where_asked_for() -> None:
    engine, _ = make_engine()
    seqs = [engine.start([1], SamplingParams(logprobs=n)) for n in (None, 0, 5)]
    assert [lp is not None for lp in engine.step(seqs).logprobs] == [False, True, True]


def test_capacity() -> None:
    engine, _ = make_engine(sequences=2)
    assert (engine.capacity().sequences, engine.capacity().tokens) == (2, 128)
    seqs = [engine.start([1, 2], SamplingParams()), engine.start([1], SamplingParams())]
    with pytest.raises(EngineError, match="no free sequence"):
        engine.start([1], SamplingParams())
    engine.step(seqs)
    assert (engine.capacity().sequences_used, engine.capacity().tokens_used) == (2, 3)
    engine.release(seqs[0])
    assert (engine.capacity().sequences_used, engine.capacity().tokens_used) == (1, 1)
    assert engine.start([7], SamplingParams()) == seqs[0]


def test_misuse_is_an_error() -> None:
    engine, _ = make_engine()
    seq = engine.start([1], SamplingParams())
    engine.step([seq])
    with pytest.raises(EngineError, match="no token to run"):
        engine.step([seq])
    engine.append(seq, [1] * 64)
    with pytest.raises(EngineError, match="longer than the context"):
        engine.step([seq])
    engine.release(seq)
    for misuse in (
        lambda: engine.release(seq),
        lambda: engine.append(seq, [1]),
        lambda: engine.truncate(seq, 0),
        lambda: engine.step([seq]),
    ):
        with pytest.raises(EngineError, match="not in use"):
            misuse()
