"""One budget in bytes, equal pools in tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trsched.errors import ConfigError
from trsched.plan.kv_budget import MAX_SEQUENCES, split_kv_budget

BYTES_PER_TOKEN = st.lists(st.integers(1, 1 << 18), min_size=1, max_size=5)


@given(
    st.integers(1, 1 << 36),
    BYTES_PER_TOKEN,
    st.integers(8, 1 << 15),
    st.one_of(st.none(), st.integers(1, 500)),
)
def test_split(budget: int, per_token: list[int], context: int, max_active: int | None) -> None:
    one_request = sum(per_token) * context
    if budget < one_request:
        with pytest.raises(ConfigError) as caught:
            split_kv_budget(budget, per_token, context, max_active)
        assert caught.value.field == "kv_memory"
        assert str(context) in str(caught.value)
        return
    plan = split_kv_budget(budget, per_token, context, max_active)
    assert plan.context == context
    assert plan.tokens == plan.sequences * context
    assert list(plan.bytes_per_model) == [plan.tokens * each for each in per_token]
    assert sum(plan.bytes_per_model) <= budget
    most = min(MAX_SEQUENCES, max_active or MAX_SEQUENCES)
    assert 1 <= plan.sequences <= most
    assert plan.sequences == most or (plan.sequences + 1) * one_request > budget


def test_message_says_what_would_be_enough() -> None:
    with pytest.raises(ConfigError, match=r"1\.0 MiB cannot hold .* 1024 tokens.* 3\.0 MiB"):
        split_kv_budget(1 << 20, [1024, 2048], 1024, None)
