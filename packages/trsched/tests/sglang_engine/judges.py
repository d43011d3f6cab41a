"""What is checked of every step of the sglang engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tests.support.sglang.tiny_models import Reference

TOLERANCE = 2e-4
"""Of logits and hidden states (float32) against transformers; typical magnitudes are 1 to 10."""


def check_rows(result: Any, tokens: Mapping[int, Sequence[int]], reference: Reference) -> None:
    """All rows of a step, each against a forward of its sequence alone."""
    shown = result.logits_output
    for row, seq in enumerate(result.seqs):
        wanted = reference(tokens[seq])
        assert (shown.next_token_logits[row] - wanted.logits).abs().max() < TOLERANCE
        assert (shown.hidden_states[row] - wanted.hidden).abs().max() < TOLERANCE
        sampled = int(result.sampled[row])
        assert torch.equal(shown.token_embeddings[row], reference.embeddings[sampled])
        assert int(result.next_token_ids[row]) == sampled
        assert shown.next_token_logits[row].argmax() == sampled
        assert wanted.logits[sampled] > wanted.logits.max() - 2 * TOLERANCE


def check_memory(engine: Any) -> None:
    """SGLang's own accounts of the KV pool hold, with parked sequences among the owners."""
    engine.scheduler.on_idle()  # must know that it isn't idle
    checker = engine.scheduler.invariant_checker
    checker.self_check_during_busy()
    checker._check_kv_page_invariants()


def check_empty(engine: Any) -> None:
    """No sequence holds KV, and all of the pool comes back from the radix cache."""
    assert engine.capacity().sequences_used == 0
    assert engine.capacity().tokens_used == 0
    scheduler = engine.scheduler
    assert scheduler.is_fully_idle()
    scheduler.on_idle()  # SGLang's own check for leaks
    assert scheduler.flush_cache()
    assert scheduler.token_to_kv_pool_allocator.available_size() == scheduler.max_total_num_tokens
