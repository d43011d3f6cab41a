"""Configurations: what is accepted, and that every refusal names the field."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trsched.errors import ConfigError
from trsched.plan.config import LlamaCppModel, ProfileModel, RouterConfig, group_config, parse_bytes
from trsched.request import ModelSampling

GOOD: dict[str, Any] = {
    "name": "pair",
    "models": [
        {"engine": "profile", "name": "small", "step_ms": [6.0]},
        {"engine": "llamacpp", "name": "large", "path": "large.gguf", "sampling": {}},
    ],
    "router": {"name": "bernoulli", "settings": {"p": 0.3}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """GOOD with the field at the dotted `path` (numbers index lists) set to `value`."""
    data = deepcopy(GOOD)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = data
    for part in parents:
        target = target[part]
    target[last] = value
    return data


def test_defaults() -> None:
    config = group_config(GOOD)
    assert isinstance(config.models[0], ProfileModel)
    assert isinstance(config.models[1], LlamaCppModel)
    assert config.router == RouterConfig("bernoulli", {"p": 0.3})
    assert [model.threshold for model in config.models] == [1, 1]
    assert config.kv_bytes == 1 << 30
    assert config.max_active is None
    assert config.on_peer_death == "degrade"
    assert config.on_router_error == "fail"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("models", [], "models"),
        ("models", "small", "models"),
        ("models", None, "models"),
        ("models.0", 3, "models[0]"),
        ("models.1.name", "small", "models[1].name"),
        ("models.0.name", 3, "models[0].name"),
        ("models.0.threshold", 0, "models[0].threshold"),
        ("models.1.threshold", -1, "models[1].threshold"),
        ("models.1.threshold", 1.5, "models[1].threshold"),
        ("models.1.threshold", True, "models[1].threshold"),
        ("models.0.step_ms", [], "models[0].step_ms"),
        ("models.0.step_ms", [6.0, 0.0], "models[0].step_ms"),
        ("models.0.step_ms", [6.0, -1.0], "models[0].step_ms"),
        ("models.0.step_ms", [math.nan], "models[0].step_ms"),
        ("models.0.step_ms", [math.inf], "models[0].step_ms"),
        ("models.0.step_ms", 6.0, "models[0].step_ms"),
        ("models.0.step_ms", ["slow"], "models[0].step_ms[0]"),
        ("models.0.extend_token_ms", -0.1, "models[0].extend_token_ms"),
        ("models.0.extend_token_ms", math.nan, "models[0].extend_token_ms"),
        ("models.0.eos_rate", 1.1, "models[0].eos_rate"),
        ("models.0.eos_rate", -0.1, "models[0].eos_rate"),
        ("models.0.eos_rate", math.nan, "models[0].eos_rate"),
        ("models.0.vocab_size", 256, "models[0].vocab_size"),
        ("models.0.kv_bytes_per_token", 0, "models[0].kv_bytes_per_token"),
        ("models.1.path", None, "models[1].path"),
        ("models.1.quantize", 4, "models[1].quantize"),
        ("models.1.threads", -1, "models[1].threads"),
        ("models.1.batch_tokens", 0, "models[1].batch_tokens"),
        ("models.1.gpu_layers", "all", "models[1].gpu_layers"),
        ("models.1.sampling", 3, "models[1].sampling"),
        ("models.0.sampling", {"temperature": -0.1}, "models[0].sampling.temperature"),
        ("models.1.sampling", {"temperature": math.nan}, "models[1].sampling.temperature"),
        ("models.1.sampling", {"temperature": "hot"}, "models[1].sampling.temperature"),
        ("models.0.sampling", {"top_k": 5, "top_p": 0.0}, "models[0].sampling.top_p"),
        ("models.1.sampling", {"top_p": 1.1}, "models[1].sampling.top_p"),
        ("models.1.sampling", {"top_p": True}, "models[1].sampling.top_p"),
        ("models.1.sampling", {"top_k": -1}, "models[1].sampling.top_k"),
        ("models.1.sampling", {"top_k": 1 << 31}, "models[1].sampling.top_k"),
        ("models.1.sampling", {"top_k": 1.5}, "models[1].sampling.top_k"),
        ("models.1.sampling", {"seed": 1}, "models[1].sampling"),
        ("router", "bernoulli", "router"),
        ("router.name", 3, "router.name"),
        ("router.settings", [], "router.settings"),
        ("context", 7, "context"),
        ("context", "2k", "context"),
        ("kv_memory", 0, "kv_memory"),
        ("kv_memory", "0GiB", "kv_memory"),
        ("kv_memory", "much", "kv_memory"),
        ("kv_memory", -5, "kv_memory"),
        ("kv_memory", 1.5, "kv_memory"),
        ("kv_memory", True, "kv_memory"),
        ("max_active", 0, "max_active"),
        ("max_active", "8", "max_active"),
        ("max_queue", -1, "max_queue"),
        ("overlap", "yes", "overlap"),
        ("on_peer_death", "panic", "on_peer_death"),
        ("on_router_error", "degrade", "on_router_error"),
        ("name", None, "name"),
    ],
)
def test_bad_field_is_named(path: str, value: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        group_config(changed(path, value))
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def test_sampling_of_a_model() -> None:
    assert [model.sampling for model in group_config(GOOD).models] == [ModelSampling()] * 2
    extremes = {"temperature": 0, "top_p": 1, "top_k": 0}
    config = group_config(changed("models.1.sampling", extremes))
    assert config.models[1].sampling == ModelSampling(0.0, 1.0, 0)
    config = group_config(changed("models.0.sampling", {"top_p": 0.5}))
    assert config.models[0].sampling == ModelSampling(top_p=0.5)


@pytest.mark.parametrize(
    ("parent", "field"),
    [
        ("", "configuration"),
        ("models.0.", "models[0]"),
        ("models.1.", "models[1]"),
        ("models.1.sampling.", "models[1].sampling"),
        ("router.", "router"),
    ],
)
def test_unknown_key_is_named(parent: str, field: str) -> None:
    with pytest.raises(ConfigError, match="unknown field `treshold`") as caught:
        group_config(changed(parent + "treshold", 2))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("path", "field"),
    [("models.0.engine", "models[0]"), ("models.1.path", "models[1]"), ("router.name", "router")],
)
def test_missing_key_is_named(path: str, field: str) -> None:
    data = changed(path, None)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = data
    for part in parents:
        target = target[part]
    del target[last]
    with pytest.raises(ConfigError, match=str(last)) as caught:
        group_config(data)
    assert caught.value.field.startswith(field)


def test_unknown_engine() -> None:
    with pytest.raises(ConfigError, match="vllm") as caught:
        group_config(changed("models.1.engine", "vllm"))
    assert caught.value.field == "models[1].engine"


@pytest.mark.parametrize("data", [None, [], "pair", 3, {}, {1: 2}])
def test_what_is_no_configuration_at_all(data: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        group_config(data)
    assert caught.value.field == "configuration"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (123, 123),
        ("123", 123),
        ("123B", 123),
        ("1KiB", 1024),
        ("512 MiB", 512 << 20),
        ("1gib", 1 << 30),
        ("1.5GiB", 3 << 29),
        ("0.1 MiB", 104857),
        ("2kB", 2000),
        ("3MB", 3_000_000),
        (" 2GB ", 2_000_000_000),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_bytes(text, "x") == size


@given(st.integers(0, 1 << 70))
def test_whole_sizes_are_exact(size: int) -> None:
    assert parse_bytes(size, "x") == parse_bytes(f"{size} B", "x") == size
    assert parse_bytes(f"{size}KiB", "x") == size * 1024


@pytest.mark.parametrize("text", ["", "GiB", "1 TB", "1.GiB", ".5GiB", "1e9", "-1", "1 GiB RAM"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ConfigError, match="not a size") as caught:
        parse_bytes(text, "some.field")
    assert caught.value.field == "some.field"
