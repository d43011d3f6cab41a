"""Every preset of the demo models serves, with the models that its router is to use."""

from __future__ import annotations

import pytest

from trsched.errors import ConfigError
from trsched.group import Group
from trsched.request import GenerateRequest, SamplingParams
from trserve.presets import preset_names
from trserve.server.deployment import load_deployment
from trserve.server.text.tokenizer import Tokenizer

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

pytestmark = [pytest.mark.models, pytest.mark.slow]

WRITERS = {"smol-slm": {0}, "smol-llm": {1}, "smol-me3": {0, 1, 2}}
"""Models that make tokens; of other presets both do."""


@pytest.mark.parametrize("preset", [name for name in preset_names() if name.startswith("smol-")])
def test_it_serves(preset: str) -> None:
    deployment = load_deployment(preset=preset, flags={"context": 256, "kv_memory": "128MiB"})
    try:
        group = Group.open(deployment.group)
    except ConfigError as error:
        if "not installed" in str(error):
            pytest.skip(str(error))
        raise
    try:
        chat = [{"role": "user", "content": "Why is the sky blue?"}]
        prompt = Tokenizer(group.vocabulary).encode_chat_now(chat)
        request = GenerateRequest(
            request_id="",
            prompt_ids=prompt,
            max_tokens=24,
            sampling=SamplingParams(temperature=0.0, seed=1),
            stop_token_ids=group.vocabulary.stop_ids,
        )
        tokens, final = group.submit(request).result()
        again, _ = group.submit(request).result()
    finally:
        group.close()
    assert final.reason in ("length", "stop")
    assert not final.degraded
    assert {token.model for token in tokens} == WRITERS.get(preset, {0, 1})
    assert again == tokens
