"""Uniform draws: Philox as published, a function of (seed, position, stream) alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trrouters.draws import ROUTING_STREAM, uniform

WORD = (1 << 64) - 1
SEEDS = st.integers(0, WORD)
POSITIONS = st.integers(0, 1 << 40)
STREAMS = st.integers(0, ROUTING_STREAM + 3)


def philox4x64(counter: int, key: int) -> list[int]:
    """Ten rounds, from the paper (Salmon et al., SC'11, section 4.1)."""
    c = [counter >> 64 * i & WORD for i in range(4)]
    k = [key >> 64 * i & WORD for i in range(2)]
    for _ in range(10):
        high0, low0 = divmod(0xD2E7470EE14C6C93 * c[0], 1 << 64)
        high1, low1 = divmod(0xCA5A826395121157 * c[2], 1 << 64)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B97F4A7C15) & WORD, (k[1] + 0xBB67AE8584CAA73B) & WORD]
    return c


@given(SEEDS, POSITIONS, STREAMS)
def test_is_philox_of_the_position(seed: int, position: int, stream: int) -> None:
    first, *_ = philox4x64((stream << 64 | position) + 1, seed)
    assert uniform(seed, position, stream) == (first >> 11) / (1 << 53)


@pytest.mark.parametrize(
    ("seed", "position", "stream", "value"),
    [
        (0, 0, 0, 0.011546754286331562),
        (1, 0, 0, 0.3035680343067586),
        (0, 1, 0, 0.5023796042735054),
        (0, 0, 1, 0.21185954403345741),
        (WORD, 12345, ROUTING_STREAM, 0.8045217269041266),
    ],
)
def test_reference_values_never_change(seed: int, position: int, stream: int, value: float) -> None:
    """Seeds that users keep must go on giving the responses that they gave."""
    assert uniform(seed, position, stream) == value


@given(SEEDS, POSITIONS, STREAMS)
def test_repeats_and_lies_in_the_unit_interval(seed: int, position: int, stream: int) -> None:
    u = uniform(seed, position, stream)
    assert 0.0 <= u < 1.0
    assert uniform(seed, position, stream) == u


def test_every_argument_matters() -> None:
    arguments = [(s, p, t) for s in range(6) for p in range(6) for t in (0, 1, 2, ROUTING_STREAM)]
    assert len({uniform(*each) for each in arguments}) == len(arguments)


@pytest.mark.parametrize("varied", [0, 1, 2], ids=["seed", "position", "stream"])
def test_uniform_along_every_argument(varied: int) -> None:
    n = 4000
    draws = np.sort([uniform(*(i if varied == a else 3 for a in range(3))) for i in range(n)])
    steps = np.arange(n + 1) / n
    distance = max(np.max(steps[1:] - draws), np.max(draws - steps[:-1]))
    assert distance * math.sqrt(n) < 1.63, "Kolmogorov-Smirnov, 1 %"


def test_neighbours_are_not_correlated() -> None:
    n = 4000
    for step in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        pairs = np.array([(uniform(i, i, i), uniform(*(i + d for d in step))) for i in range(n)])
        assert abs(np.corrcoef(pairs.T)[0, 1]) * math.sqrt(n) < 2.58, "1 %"
