"""`kv_memory: auto`: what GPUs have left beside the weights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trsched.errors import ConfigError
from trsched.plan.check import check, check_group
from trsched.plan.config import group_config
from trsched.plan.gpu_memory import RESERVE_BYTES, RankMemory, gpu_lines, tokens_that_fit

GIB = 1 << 30
SMALL = RankMemory("small", 0, 1 * GIB, 100_000)
LARGE = [RankMemory("large", gpu, 30 * GIB, 130_000) for gpu in (0, 1)]


def test_the_fullest_gpu_decides() -> None:
    free = {0: 79 * GIB, 1: 79 * GIB}
    left = 79 * GIB - 31 * GIB - 2 * RESERVE_BYTES
    assert tokens_that_fit(free, [SMALL, *LARGE]) == left // 230_000
    free[1] = 40 * GIB
    assert tokens_that_fit(free, [SMALL, *LARGE]) == (10 * GIB - RESERVE_BYTES) // 130_000


@given(
    free=st.lists(st.integers(60 * GIB, 200 * GIB), min_size=2, max_size=2),
    small=st.integers(1, 1 << 20),
    large=st.integers(1, 1 << 20),
)
def test_it_all_fits_and_not_one_token_more(free: list[int], small: int, large: int) -> None:
    ranks = [
        RankMemory("small", 0, GIB, small),
        *(RankMemory("large", gpu, 20 * GIB, large) for gpu in (0, 1)),
    ]
    tokens = tokens_that_fit(dict(enumerate(free)), ranks)

    def fits(tokens: int) -> bool:
        taken = [0, 0]
        for rank in ranks:
            taken[rank.gpu] += rank.weight_bytes + RESERVE_BYTES + tokens * rank.kv_bytes_per_token
        return taken[0] <= free[0] and taken[1] <= free[1]

    assert fits(tokens)
    assert not fits(tokens + 1)


def test_a_gpu_without_room_or_without_being_there() -> None:
    for free, said in (
        ({0: 30 * GIB, 1: 79 * GIB}, "GPU 0 has 30.0 GiB free, weights of small and large"),
        ({0: 79 * GIB}, "there is no GPU 1 (found 1)"),
    ):
        with pytest.raises(ConfigError) as caught:
            tokens_that_fit(free, [SMALL, *LARGE])
        assert caught.value.field == "kv_memory"
        assert said in str(caught.value)


def test_lines() -> None:
    assert gpu_lines([], 1000) == []
    first, second = gpu_lines([SMALL, *LARGE], GIB // 230_000)
    assert first == (
        "GPU 0: small + large, weights 31.0 GiB, KV 1.0 GiB, 12 GiB for CUDA and activations: "
        "44.0 GiB"
    )
    assert second.startswith("GPU 1: large, weights 30.0 GiB, KV 0.6 GiB")


CONFIG = group_config(
    {
        "name": "test",
        "models": [
            {"engine": "sglang", "name": "small", "path": "Qwen/Qwen3-0.6B"},
            {"engine": "sglang", "name": "large", "path": "Qwen/Qwen3-32B", "tp": 2},
        ],
        "router": {"name": "bernoulli"},
        "load_format": "dummy",
        "kv_memory": "auto",
        "context": 8192,
    }
)


def test_a_group_takes_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trsched.plan.check.free_gpu_memory", lambda: {0: 79 * GIB, 1: 79 * GIB})
    plan = check_group(CONFIG)
    assert plan.kv.sequences == 18  # (79 GiB - 31.6 - 2 · 6) / 240 KiB a token on GPU 0
    assert isinstance(plan.config.kv_memory, int), "asked once, for all processes of the group"
    assert check_group(plan.config).kv == plan.kv


def test_without_a_gpu_nothing_is_left_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trsched.plan.check.free_gpu_memory", dict)
    (unchecked,) = check(CONFIG).unchecked
    assert unchecked.field == "kv_memory"
    with pytest.raises(ConfigError, match="no CUDA GPU here whose memory could be divided"):
        check_group(CONFIG)


def test_this_machine_is_asked() -> None:
    torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed")
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    (unchecked,) = check(CONFIG).unchecked
    assert unchecked.field == "kv_memory"
