"""A model whose LM head has a row more than tokens, Co-LLM's: the row is seen, never sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")

import gguf

from tests.support.trsched.deferral_gguf import (
    DEFERRAL_TEXT,
    HEAD_MARGIN,
    DeferralModel,
    add_deferral_row,
    as_stored,
    save_head,
)
from tests.support.trsched.seen_outputs import (
    ALL,
    GREEDY,
    HEAD_TOLERANCE,
    assert_same,
    look,
    look_at,
    rounded,
    small_engine,
    walk,
)
from trrouters import Need, RouterContext
from trrouters.algorithms.co_llm import CoLlm
from trsched.engines.llamacpp import LlamaCppEngine
from trsched.errors import ConfigError
from trsched.models.vocabulary import GgufVocabulary
from trsched.plan.check import GroupPlan, check_group
from trsched.plan.config import group_config
from trsched.request import SamplingParams

STATES: frozenset[Need] = frozenset({"logits", "hidden_states"})
SAMPLINGS = [
    GREEDY,
    SamplingParams(temperature=0.8, seed=1, logprobs=5),
    SamplingParams(temperature=1.0, top_p=0.9, seed=2),
    SamplingParams(temperature=5.0, top_k=40, seed=3, logprobs=0),
]


@pytest.fixture(scope="module")
def plain(slm: Path) -> GgufVocabulary:
    return GgufVocabulary(slm)


@pytest.fixture
def open_engine(deferral_model: DeferralModel) -> Iterator[Callable[..., LlamaCppEngine]]:
    engines = []

    def build(**changes: Any) -> LlamaCppEngine:
        vocabulary = GgufVocabulary(deferral_model.path, extra_rows=1)
        engines.append(small_engine(deferral_model.path, vocabulary, **changes))
        return engines[-1]

    yield build
    for engine in engines:
        engine.close()


def test_the_vocabulary_is_the_plain_models(
    deferral_model: DeferralModel, plain: GgufVocabulary
) -> None:
    ours = GgufVocabulary(deferral_model.path, extra_rows=1)
    for name in ("size", "fingerprint", "stop_ids", "context_length", "kv_bytes_per_token"):
        assert getattr(ours, name) == getattr(plain, name), name
    whole = GgufVocabulary(deferral_model.path)
    assert whole.size == plain.size + 1
    assert whole.fingerprint != plain.fingerprint


@pytest.mark.parametrize("kind", ["CONTROL", "USER_DEFINED", "UNUSED"])
def test_the_rows_name_is_just_text(
    slm: Path, plain: GgufVocabulary, tmp_path: Path, kind: str
) -> None:
    """Or a client that writes it would bring a token that no model has."""
    path = tmp_path / "base.gguf"
    add_deferral_row(gguf.GGUFReader(slm), path, np.zeros(576, np.float32), gguf.TokenType[kind])
    ours = GgufVocabulary(path, extra_rows=1)
    path.unlink()
    for text in (f"say {DEFERRAL_TEXT}{DEFERRAL_TEXT} now", f"<|im_start|>{DEFERRAL_TEXT}"):
        for special in (True, False):
            assert ours.encode(text, special=special) == plain.encode(text, special=special)


def test_tokens_and_logits_are_the_plain_models(open_engine, slm, plain, deferral_model) -> None:
    """Also where the row's logit is the largest of all."""
    ours = open_engine(sequences=4, needs=STATES | {"extra_logits"})
    theirs = small_engine(slm, plain, sequences=4, needs=STATES)
    for i, sampling in enumerate(SAMPLINGS):
        for engine in (ours, theirs):
            engine.start(deferral_model.tokens[: i + 1], sampling)
    largest = [0] * 4
    for token in deferral_model.tokens[4:30]:
        result, expected = ours.step(range(4)), theirs.step(range(4))
        assert result.logprobs == expected.logprobs
        assert result.sampled.max() < plain.size
        rows = look(expected)
        for seq, shown in look(result).items():
            assert shown.extra is not None
            assert shown.logits is not None
            assert_same(replace(shown, extra=None), rows[seq])
            largest[seq] += shown.extra[0] > shown.logits.max()
            ours.append(seq, [token])
            theirs.append(seq, [token])
    theirs.close()
    assert min(largest) > 1


def test_the_extra_logit_is_the_state_times_the_row(open_engine, deferral_model) -> None:
    engine = open_engine(needs=frozenset({"extra_logits"}))
    assert engine.spec.provides == ALL | {"extra_logits"}
    shown = walk(engine, deferral_model.tokens)
    assert {(seen.logits, seen.hidden, seen.embedding) for seen in shown} == {(None, None, None)}
    expected = rounded(deferral_model.states) @ as_stored(deferral_model.row)
    assert np.std(expected) > 5
    extra: Any = [seen.extra for seen in shown]
    np.testing.assert_allclose(np.concatenate(extra), expected, atol=HEAD_TOLERANCE)


def test_nothing_extra_unless_needed(open_engine, deferral_model) -> None:
    engine = open_engine(needs=STATES)
    seq = engine.start(deferral_model.tokens[:4], GREEDY)
    assert look_at(engine, seq).extra is None


def test_decisions_are_those_of_the_row_as_a_head_of_its_own(
    open_engine, deferral_model, tmp_path
) -> None:
    """The head sees states that are not rounded: its logits are a little different."""
    context = RouterContext(0, 2, 49152)
    checkpoint = save_head(deferral_model.row, [], tmp_path)
    head = CoLlm(context, checkpoint=checkpoint)
    logits = torch.cat([head.scores(seen.alone()) for seen in deferral_model.plain]).logit().numpy()
    order = np.sort(logits[np.abs(logits) < 10])  # beyond, probabilities are close to 0 or 1
    widest = int(np.argmax(np.diff(order)))
    assert order[widest + 1] - order[widest] > 2 * HEAD_MARGIN
    threshold = float(torch.tensor(order[widest : widest + 2].mean()).sigmoid())
    own = CoLlm(context, threshold=threshold)
    head = CoLlm(context, checkpoint=checkpoint, threshold=threshold)
    shown = walk(open_engine(needs=frozenset({"extra_logits"})), deferral_model.tokens)
    decisions = [int(own.route(seen.alone())[0]) for seen in shown]
    assert decisions == [int(head.route(seen.alone())[0]) for seen in deferral_model.plain]
    assert 5 < sum(decisions) < len(decisions) - 5


def plan(small: dict[str, Any], large: Path, **settings: Any) -> GroupPlan:
    return check_group(
        group_config(
            {
                "name": "pair",
                "models": [
                    {"engine": "llamacpp", "name": "base", **small},
                    {"engine": "llamacpp", "name": "assistant", "path": str(large)},
                ],
                "router": {"name": "co_llm", "settings": {"threshold": 0.5, **settings}},
                "context": 128,
                "max_active": 2,
            }
        )
    )


def test_pairs(slm: Path, deferral_model: DeferralModel) -> None:
    path = str(deferral_model.path)
    accepted = plan({"path": path, "deferral_row": True}, slm)
    assert accepted.routers[0].needs == {"extra_logits"}
    refusals: list[tuple[dict[str, Any], str, str]] = [
        ({"path": path}, "models[1]", "'assistant' and 'base' have different vocabularies"),
        ({"path": str(slm)}, "router.name", "'co_llm' needs extra_logits, which the llamacpp"),
        (
            {"path": str(slm), "deferral_row": True},
            "models[1]",
            "the last token of 'base' was",
        ),
    ]
    for small, field, message in refusals:
        with pytest.raises(ConfigError) as caught:
            plan(small, slm)
        assert caught.value.field == field
        assert message in str(caught.value)
