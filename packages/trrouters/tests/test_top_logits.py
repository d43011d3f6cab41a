"""The largest logits by groups are those of a search through all of them."""

# ruff: noqa: E402  (without torch this module is skipped before it imports it)

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")

from trrouters.top_logits import top_logits


def rows(batch: int, vocab: int, kind: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 4, (batch, vocab)).astype(np.float32)
    if kind == "ties":
        values = np.round(values)
    elif kind == "barred":  # most tokens forbidden
        values[rng.random((batch, vocab)) < 0.9] = -math.inf
    elif kind == "sorted":
        values.sort(axis=1)
    return torch.from_numpy(values)


@given(
    st.integers(1, 5),
    st.integers(1, 3000),
    st.data(),
    st.sampled_from(["any", "ties", "barred", "sorted"]),
    st.integers(0, 1000),
)
def test_equal_to_topk(batch: int, vocab: int, data: st.DataObject, kind: str, seed: int) -> None:
    few = st.integers(1, min(vocab, 120))
    nearly_all = st.integers(max(1, vocab - 3), vocab)
    count = data.draw(st.one_of(few, nearly_all), label="count")
    logits = rows(batch, vocab, kind, seed)
    assert torch.equal(top_logits(logits, count), logits.topk(count, dim=-1).values)


@pytest.mark.parametrize("vocab", [49_152, 49_157, 151_936])
@pytest.mark.parametrize("kind", ["any", "ties"])
def test_equal_to_topk_for_real_vocabularies(vocab: int, kind: str) -> None:
    logits = rows(2, vocab, kind, vocab)
    before = logits.clone()
    assert torch.equal(top_logits(logits, 100), logits.topk(100, dim=-1).values)
    assert torch.equal(logits, before), "the router's input is left as it was"


def test_a_row_does_not_depend_on_its_batch() -> None:
    logits = rows(16, 5000, "any", 1)
    alone = torch.cat([top_logits(row[None], 100) for row in logits])
    assert torch.equal(top_logits(logits, 100), alone)
