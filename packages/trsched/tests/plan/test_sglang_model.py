"""Models on SGLang: settings that are refused, and what is planned before weights are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers", reason="trsched[huggingface] is not installed")

from tests.support.trsched.hf_folders import ROWS, byte_level_tokenizer, hf_folder
from tests.support.trsched.planned_groups import data, model, planned, refused
from trrouters import ModelIdentity
from trsched.errors import ConfigError
from trsched.plan.config import group_config
from trsched.plan.gpu_memory import RankMemory
from trsched.plan.sglang_model import SglangModel

KV_BYTES = 2 * 2 * 2 * 16 * 2  # K and V, layers, heads, head size, bfloat16


def weight_bytes(layers: int) -> int:
    """Of the fixture's model in bfloat16."""
    layer = 2 * 64 * 16 * (4 + 2) + 3 * 64 * 128 + 2 * 64  # attention, MLP, norms
    return 2 * (layers * layer + 64 + ROWS * 64)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return hf_folder(tmp_path / "small")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    return hf_folder(tmp_path / "large", config={"num_hidden_layers": 4}, weights=b"more" * 9)


def test_defaults() -> None:
    config = group_config(data(model("small", "Qwen/Qwen3-0.6B")))
    (only,) = config.models
    assert only == SglangModel("small", "Qwen/Qwen3-0.6B")
    assert isinstance(only, SglangModel)
    assert (only.ranks, only.rank_gpus) == (1, [0])
    assert only.provides == {"logits", "hidden_states", "token_embedding"}
    wide = SglangModel("large", "x", tp=2, gpus=[3, 1], deferral_row=True)
    assert (wide.ranks, wide.rank_gpus) == (2, [3, 1])
    assert "extra_logits" in wide.provides
    assert SglangModel("large", "x", tp=2).rank_gpus == [0, 1]


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"path": None}, "models[0].path", "Expected `str`"),
        ({"revision": 3}, "models[0].revision", "Expected `str | null`"),
        ({"tp": 0}, "models[0].tp", "at least 1"),
        ({"tp": 1.5}, "models[0].tp", "Expected `int`"),
        ({"tp": True}, "models[0].tp", "Expected `int`"),
        ({"gpus": 0}, "models[0].gpus", "Expected `array | null`"),
        ({"gpus": ["0"]}, "models[0].gpus[0]", "Expected `int`"),
        ({"gpus": []}, "models[0].gpus", "0 GPUs for 1 ranks"),
        ({"gpus": [0, 1]}, "models[0].gpus", "2 GPUs for 1 ranks"),
        ({"gpus": [-1]}, "models[0].gpus", "not 1 different GPU"),
        ({"tp": 2, "gpus": [1, 1]}, "models[0].gpus", "not 2 different GPU"),
        ({"dtype": "int4"}, "models[0].dtype", "int4"),
        ({"load_format": "pickle"}, "models[0].load_format", "pickle"),
        ({"quantization": "q4_0"}, "models[0].quantization", "q4_0"),
        ({"threshold": 0}, "models[0].threshold", "at least 1"),
        ({"deferral_row": 1}, "models[0].deferral_row", "Expected `bool`"),
        ({"sampling": {"top_p": 2}}, "models[0].sampling.top_p", "top_p"),
        ({"server_args": []}, "models[0].server_args", "Expected `object`"),
        ({"server_args": {"tp_size": 2}}, "models[0].server_args.tp_size", "use tp"),
        ({"server_args": {"port": 1}}, "models[0].server_args.port", "use the server's port"),
        (
            {"server_args": {"disable_overlap_schedule": False}},
            "models[0].server_args.disable_overlap_schedule",
            "needs it as it is",
        ),
        (
            {"server_args": {"kv_cache_dtype": "int3"}},
            "models[0].server_args.kv_cache_dtype",
            "'int3' is none of auto, bf16",
        ),
        ({"gpu_layers": 3}, "models[0]", "unknown field `gpu_layers`"),
    ],
)
def test_a_bad_setting_is_named(change: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r".") as caught:
        group_config(data({**model("small", "Qwen/Qwen3-0.6B"), **change}))
    assert caught.value.field == field
    assert said in str(caught.value)


def test_settings_of_the_group() -> None:
    profile = {"engine": "profile", "name": "p", "step_ms": [1.0]}
    for settings, field in (
        ({"load_format": "dummy"}, "load_format"),
        ({"kv_memory": "auto"}, "kv_memory"),
    ):
        with pytest.raises(ConfigError) as caught:
            group_config(data(profile, **settings))
        assert caught.value.field == field
    config = group_config(data(profile, model("s", "a/b"), load_format="dummy"))
    assert [getattr(each, "load_format", None) for each in config.models] == [None, "dummy"]
    assert group_config(data(model("s", "a/b"), kv_memory="auto")).kv_bytes is None


def test_a_plan(small: Path, large: Path) -> None:
    plan = planned(
        model("small", small),
        model("large", large, tp=2, gpus=[0, 1], dtype="float32"),
        max_active=8,
    )
    assert plan.paths == (small, large)
    assert (plan.kv.sequences, plan.kv.tokens) == (8, 512)
    assert plan.kv.bytes_per_model == (512 * KV_BYTES, 512 * 4 * KV_BYTES)
    assert [rank.gpu for rank in plan.rank_memory] == [0, 0, 1]
    assert plan.rank_memory[1] == RankMemory(
        "large", 0, weight_bytes(4), 2 * KV_BYTES
    )  # float32, halved
    assert [identity.hidden_size for identity in plan.identities] == [64, 64]
    assert plan.identities[0].fingerprint != plan.identities[1].fingerprint
    said = "\n".join(plan.lines())
    for part in ("sglang, KV 0 MiB = 8 × 64 tokens", "GPU 0: small + large", "GPU 1: large"):
        assert part in said


def test_heads_that_are_fewer_than_ranks_are_held_twice(small: Path) -> None:
    plan = planned(model("small", small, tp=4), max_active=1)
    assert plan.kv.bytes_per_model == (64 * KV_BYTES * 2,)


def test_kv_in_eight_bits(small: Path) -> None:
    plan = planned(model("small", small, server_args={"kv_cache_dtype": "fp8_e4m3"}), max_active=1)
    assert plan.kv.bytes_per_model == (64 * KV_BYTES // 2,)


def test_different_tokenizers_name_both_models(small: Path, tmp_path: Path) -> None:
    other = hf_folder(tmp_path / "other", byte_level_tokenizer(("<tool>",)))
    error = refused(model("small", small), model("large", other))
    assert error.field == "models[1]"
    assert "'large' and 'small' have different vocabularies" in str(error)


def test_logits_of_different_sizes_name_both_models(small: Path, tmp_path: Path) -> None:
    """As Qwen2.5's of 0.5B and 7B, of one tokenizer: an id of padding could be sampled."""
    wider = hf_folder(tmp_path / "wider", config={"vocab_size": ROWS + 64})
    error = refused(model("small", small), model("large", wider))
    assert error.field == "models[1]"
    assert f"'large' has {ROWS + 64} rows of logits and 'small' {ROWS}" in str(error)
    row = hf_folder(tmp_path / "row", config={"vocab_size": ROWS + 1})
    planned(model("small", row, deferral_row=True), model("large", small), max_active=1)


def test_what_ends_a_text_of_one_model_ends_any_response(small: Path, tmp_path: Path) -> None:
    base = hf_folder(tmp_path / "base", generation={"eos_token_id": 5})
    plan = planned(model("base", base), model("small", small), max_active=1)
    ends = plan.vocabularies[0].stop_ids
    assert 5 in ends
    assert len(ends) == 3
    assert plan.vocabularies[1].stop_ids == ends


@pytest.mark.parametrize(
    ("config", "change", "field", "said"),
    [
        ({}, {"tp": 3}, "tp", "4 attention heads cannot be split over 3 ranks"),
        ({"num_attention_heads": 12, "num_key_value_heads": 3}, {"tp": 2}, "tp", "3 KV heads"),
        ({"hidden_size": 0}, {}, "path", "sizes must be positive"),
        ({"vocab_size": "many"}, {}, "path", "config.json: Expected `int`"),
        ({"kv_lora_rank": 512}, {}, "path", "latent attention are not supported"),
        ({"layer_types": ["full_attention", "linear"]}, {}, "path", "linear are not supported"),
    ],
)
def test_checkpoints_that_are_refused(
    tmp_path: Path, config: dict[str, Any], change: dict[str, Any], field: str, said: str
) -> None:
    folder = hf_folder(tmp_path / "odd", config=config)
    error = refused(model("odd", folder, **change))
    assert error.field == f"models[0].{field}"
    assert said in str(error)


def test_context_longer_than_a_model_was_made_for(small: Path) -> None:
    error = refused(model("small", small), context=513)
    assert error.field == "context"
    assert "'small' was made for 512" in str(error)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nowhere/model", "no such folder: /nowhere/model"),
        ("{tmp}/file", "not a folder with a checkpoint"),
        ("{tmp}/empty", "no config.json in"),
        ("package://no_such_package/x", "'no_such_package' is not installed"),
        ("Qwen3", "no such folder: Qwen3 (a model on the hub is OWNER/NAME)"),
    ],
)
def test_folders_that_are_none(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    error = refused(model("small", path.replace("{tmp}", str(tmp_path))))
    assert error.field == "models[0].path"
    assert said in str(error)


def test_weights_that_are_not_complete(small: Path) -> None:
    (small / "model.safetensors").rename(small / "model-00002-of-00002.safetensors")
    error = refused(model("small", small))
    assert error.field == "models[0].path"
    assert "no complete weights (*.safetensors) in" in str(error)
    assert planned(model("small", small, load_format="dummy"), max_active=1).max_active == 1
    (small / "model-00001-of-00002.safetensors").write_bytes(b"w")
    assert planned(model("small", small), max_active=1).max_active == 1


def test_made_up_weights_speak_bytes(small: Path) -> None:
    """Of any model whose configuration is here, as nothing else of it is needed."""
    (small / "tokenizer.json").unlink()
    plan = planned(model("a", small), model("b", small, tp=2), load_format="dummy", max_active=2)
    assert {vocabulary.size for vocabulary in plan.vocabularies} == {ROWS}
    assert plan.vocabularies[0].encode("é", special=False) == list("é".encode())
    assert plan.identities == (ModelIdentity("a", None, 64), ModelIdentity("b", None, 64))
    sizes = [rank.weight_bytes for rank in plan.rank_memory]
    assert sizes == [weight_bytes(2), weight_bytes(2) // 2, weight_bytes(2) // 2]


def test_weights_whose_size_their_files_say(tmp_path: Path) -> None:
    """Mixtures of experts, and what SGLang is to quantise, once they are here."""
    experts = hf_folder(tmp_path / "experts", config={"model_type": "qwen3_moe"}, weights=b"w" * 9)
    plan = planned(model("experts", experts, tp=2), max_active=1)
    assert [rank.weight_bytes for rank in plan.rank_memory] == [5, 5]
    dense = hf_folder(tmp_path / "dense", weights=b"w" * 7)
    assert planned(model("x", dense, quantization="fp8")).rank_memory[0].weight_bytes == 7
    assert planned(model("x", experts, quantization="fp8")).rank_memory[0].weight_bytes == 9
    unknown = {"load_format": "dummy", "quantization": "fp8"}
    (experts / "model.safetensors").unlink()
    assert planned(model("x", experts, **unknown)).rank_memory == ()
    assert refused(model("x", experts, **unknown), kv_memory="auto").field == "kv_memory"
