"""What the sglang engine shows a router: no more than it reads, and a deferral row apart."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from packages.trsched.tests.sglang_engine.conftest import OpenEngine
from packages.trsched.tests.sglang_engine.judges import TOLERANCE
from tests.support.sglang.tiny_models import VOCAB, Reference, make_model
from trsched.errors import EngineError
from trsched.request import SamplingParams

PROMPT = list(range(30, 50))


def test_nothing_is_shown_that_nobody_reads(open_engine: OpenEngine) -> None:
    with open_engine(needs=frozenset()) as engine:
        result = engine.step([engine.start(PROMPT, SamplingParams(temperature=0.0))])
        shown = result.logits_output
        assert shown.next_token_logits is shown.hidden_states is shown.token_embeddings is None
        assert result.sampled.tolist() == result.next_token_ids.tolist()


def test_a_configuration_is_enough_to_measure(
    open_engine: OpenEngine, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """Random weights, in the precision that the configuration says or another."""
    shutil.copy(pair[0] / "config.json", tmp_path)
    with open_engine(tmp_path, load_format="dummy", dtype="bfloat16") as engine:
        assert engine.spec.kv_bytes_per_token == 2 * 2 * 2 * 16 * 2
        seqs = [engine.start(PROMPT[n:], SamplingParams(seed=n)) for n in range(3)]
        for _ in range(3):
            result = engine.step(seqs)
            assert sorted(result.seqs) == sorted(seqs)
            for seq, token in zip(result.seqs, result.sampled.tolist(), strict=True):
                engine.append(seq, [token])
        shown = result.logits_output
        for tensor in (shown.next_token_logits, shown.hidden_states, shown.token_embeddings):
            assert tensor is not None
            assert tensor.dtype == torch.float32


def test_a_model_that_cannot_be_loaded_is_told_and_leaves_room(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match="SGLang could not load"), open_engine(tmp_path):
        pass
    with open_engine() as engine:
        assert engine.capacity().tokens_used == 0


def test_more_kv_than_there_is_memory_is_told(open_engine: OpenEngine) -> None:
    with (
        pytest.raises(EngineError, match=r"memory for \d+ tokens of KV, not for 1000000000"),
        open_engine(kv_tokens=10**9, mem_fraction_static=0.01),
    ):
        pass


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_deferral_row_is_split_off_before_sampling(
    open_engine: OpenEngine, tmp_path: Path, temperature: float
) -> None:
    path = make_model(tmp_path, seed=3, extra_rows=1)
    reference = Reference(path)
    needs = frozenset({"logits", "extra_logits"})
    with open_engine(path, needs=needs, extra_rows=1) as engine:
        assert engine.spec.vocab_size == VOCAB
        assert "extra_logits" in engine.spec.provides
        seq = engine.start(PROMPT, SamplingParams(temperature=temperature, seed=5))
        tokens = list(PROMPT)
        for _ in range(4):
            result = engine.step([seq])
            wanted = reference(tokens).logits
            shown = result.logits_output
            assert shown.next_token_logits is not None
            assert shown.extra_logits is not None
            assert shown.next_token_logits.shape == (1, VOCAB)
            assert (shown.next_token_logits[0] - wanted[:VOCAB]).abs().max() < TOLERANCE
            assert (shown.extra_logits[0] - wanted[VOCAB:]).abs().max() < TOLERANCE
            tokens.append(int(result.sampled[0]))
            assert tokens[-1] < VOCAB
            engine.append(seq, tokens[-1:])
