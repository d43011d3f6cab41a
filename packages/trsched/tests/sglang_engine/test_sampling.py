"""Seeded sampling: a function of the sequence, the seed and the model's number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from packages.trsched.tests.sglang_engine.conftest import OpenEngine
from packages.trsched.tests.sglang_engine.judges import check_empty
from tests.support.sglang.seeded_draw import ROUNDING, seeded_draw
from tests.support.sglang.tiny_models import Reference
from trsched.engines.sglang.engine import SglangEngine
from trsched.engines.sglang.sampling_seed import sampling_seed
from trsched.request import SamplingParams

PROMPT = list(range(10, 30))
INDEX = 1
TOKENS = 12
CASES = [
    SamplingParams(temperature=1.0, seed=7),
    SamplingParams(temperature=0.7, top_p=0.9, seed=(1 << 64) - 4),
    SamplingParams(temperature=1.5, top_k=40, seed=1 << 40),
    SamplingParams(temperature=1.0, top_p=0.8, top_k=20, seed=3),
]


@pytest.fixture(scope="module")
def engine(open_engine: OpenEngine) -> Iterator[SglangEngine]:
    with open_engine(index=INDEX) as engine:
        yield engine
        check_empty(engine)


def generate(engine: SglangEngine, sampling: SamplingParams, together: Sequence[int]) -> list[int]:
    """TOKENS tokens, stepped together with other sequences that are there already."""
    seq = engine.start(PROMPT, sampling)
    made: list[int] = []
    for turn in range(TOKENS):
        others = list(together[: turn % (len(together) + 1)])
        result = engine.step([seq, *others])
        for other, token in zip(result.seqs, result.sampled.tolist(), strict=True):
            engine.append(other, [token])
            if other == seq:
                made.append(token)
    engine.release(seq)
    return made


@pytest.mark.parametrize("sampling", CASES, ids=str)
def test_draws_can_be_replayed_from_logits(
    engine: SglangEngine, reference: Reference, sampling: SamplingParams
) -> None:
    tokens = list(PROMPT)
    for token in generate(engine, sampling, ()):
        drawn = seeded_draw(reference(tokens).logits.numpy(), sampling, len(tokens), INDEX)
        assert drawn.margin > ROUNDING  # else the case says nothing: choose another seed
        assert drawn.token == token
        tokens.append(token)


@pytest.mark.parametrize("sampling", CASES, ids=str)
def test_draws_depend_on_nothing_else(engine: SglangEngine, sampling: SamplingParams) -> None:
    alone = generate(engine, sampling, ())
    others = [
        engine.start([n, 5, 6], params)
        for n, params in enumerate((*CASES, SamplingParams(temperature=0.0)), start=90)
    ]
    assert generate(engine, sampling, others) == alone
    for seq in others:
        engine.release(seq)


def test_seeds_and_models_differ(engine: SglangEngine) -> None:
    made = {
        tuple(generate(engine, SamplingParams(temperature=1.0, seed=seed), ())) for seed in range(6)
    }
    assert len(made) == 6
    assert len({sampling_seed(seed, model) for seed in range(50) for model in range(3)}) == 150


def test_tokens_come_as_often_as_their_probabilities_say(
    engine: SglangEngine, reference: Reference
) -> None:
    sampling = SamplingParams(temperature=0.6, top_k=4)
    logits = reference(PROMPT).logits.numpy()
    likely = np.argsort(-logits)[:4]
    weights = np.exp((logits[likely] - logits.max()) / sampling.temperature)
    draws = 600
    counts = dict.fromkeys(likely.tolist(), 0)
    for start in range(0, draws, 8):
        seqs = [
            engine.start(PROMPT, SamplingParams(temperature=0.6, top_k=4, seed=seed))
            for seed in range(start, start + 8)
        ]
        for token in engine.step(seqs).sampled.tolist():
            counts[token] += 1
        for seq in seqs:
            engine.release(seq)
    expected = weights / weights.sum() * draws
    chi_square = sum(
        (counts[token] - e) ** 2 / e for token, e in zip(likely.tolist(), expected, strict=True)
    )
    assert chi_square < 16.3  # 3 degrees of freedom, p = 0.001; the seeds are fixed
