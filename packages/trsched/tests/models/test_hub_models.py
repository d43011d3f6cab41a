"""Models of the hub: what is planned without their files, and when they are fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tokenizers", reason="trsched[huggingface] is not installed")

from tests.support.trsched.hf_folders import hf_folder
from tests.support.trsched.planned_groups import checked, data, model, planned, refused
from trsched.engines.fetch import fetch_and_check
from trsched.engines.open_engine import open_engine
from trsched.errors import ConfigError
from trsched.plan.config import group_config


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return hf_folder(tmp_path / "small")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    return hf_folder(tmp_path / "large", config={"num_hidden_layers": 4}, weights=b"more" * 9)


@pytest.fixture(autouse=True)
def empty_cache_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


HUB = [
    model("qwen3-0.6b", "Qwen/Qwen3-0.6B"),
    model("qwen3-32b", "Qwen/Qwen3-32B", tp=2, gpus=[0, 1]),
]


def test_a_known_pair_of_the_hub_is_planned_without_its_files() -> None:
    plan = checked(*HUB, context=9216, kv_memory="52GiB", max_active=16)
    assert plan.kv is not None
    assert plan.kv.bytes_per_model == (147456 * 114688, 147456 * 262144)
    gib = [round(rank.weight_bytes / 2**30, 2) for rank in plan.rank_memory]
    assert gib == [1.11, 30.51, 30.51]  # 0.60 and 32.76 billion parameters
    assert [each.field for each in plan.unchecked] == ["models[0].path", "models[1].path"]
    assert all(each.on_hub for each in plan.unchecked)
    assert "tokenizer and weights" in plan.unchecked[0].message
    assert refused(*HUB, context=9216, kv_memory="52GiB").field == "models[0].path"


def test_an_unknown_model_of_the_hub_leaves_the_rest_to_be_checked() -> None:
    unknown = model("other", "somebody/Other-7B")
    plan = checked(HUB[0], unknown)
    assert (plan.kv, plan.max_active) == (None, None)
    assert [each.field for each in plan.unchecked] == ["models[0].path", "models[1].path"]
    assert "its size, tokenizer and weights" in plan.unchecked[1].message
    assert "KV not known" in "\n".join(plan.lines())
    with pytest.raises(ConfigError) as caught:
        checked(HUB[0], unknown, router={"name": "bernoulli", "settings": {"p": 2}})
    assert caught.value.field == "router.settings"
    with pytest.raises(ConfigError) as caught:
        checked(HUB[0], unknown, context=50_000)
    assert caught.value.field == "context"


def in_cache(tmp_path: Path, name: str, folder: Path, revision: str = "main") -> Path:
    """Move a checkpoint to where the hub's library keeps what it has downloaded."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / revision).write_text(commit)
    (repository / "snapshots").mkdir()
    return folder.rename(repository / "snapshots" / commit)


def test_a_model_in_the_cache_of_the_hub(tmp_path: Path, small: Path) -> None:
    snapshot = in_cache(tmp_path, "some/Body", small)
    plan = planned(model("x", "some/Body"), max_active=1)
    assert plan.paths == (snapshot,)
    assert plan.identities[0].name == "some/Body"
    (snapshot / "model.safetensors").unlink()
    (unchecked,) = checked(model("x", "some/Body"), max_active=1).unchecked
    assert "its weights are not checked" in unchecked.message
    (unchecked,) = checked(model("x", "some/Body", revision="dev")).unchecked
    assert "its size, tokenizer and weights" in unchecked.message


def test_what_gpus_have_left_is_not_known_before_the_weights_are(tmp_path: Path) -> None:
    folder = hf_folder(tmp_path / "new", config={"model_type": "qwen3_moe"}, weights=None)
    in_cache(tmp_path, "some/Experts", folder)
    plan = checked(model("x", "some/Experts"), kv_memory="auto")
    assert plan.kv is None
    assert [each.field for each in plan.unchecked] == ["models[0].path"]


TRAINED = {"name": "citer", "settings": {"checkpoint": "/nowhere/citer"}}


def test_a_router_that_is_still_to_come() -> None:
    pytest.importorskip("torch", reason="trrouters[torch] is not installed")
    plan = checked(*HUB, router=TRAINED | {"obtain": "train it"}, load_format="dummy")
    (missing,) = plan.unchecked
    assert missing.field == "router.settings"
    assert "/nowhere/citer; to get it: train it" in missing.message
    assert plan.kv is not None
    with pytest.raises(ConfigError, match="train it"):
        fetch_and_check(plan.config, print)
    assert refused(*HUB, router=TRAINED, load_format="dummy").field == "router.settings"


def test_nothing_is_fetched_for_an_engine_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trsched.engines.open_sglang.find_spec", lambda name: None)
    monkeypatch.setattr("trsched.engines.fetch.fetch_hf_files", None)
    with pytest.raises(ConfigError) as caught:
        fetch_and_check(group_config(data(*HUB)), print)
    assert str(caught.value) == (
        "models[0].engine: sglang is not installed: pip install 'trsched[sglang]'"
    )
    plan = planned(*HUB, load_format="dummy", max_active=1)
    with pytest.raises(ConfigError, match="sglang is not installed"):
        open_engine(plan, 0, print)


def test_models_are_fetched_before_they_are_checked_again(
    tmp_path: Path, small: Path, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def fetch(name: str, revision: str | None, field: str) -> None:
        fetched.append((name, revision, field))
        in_cache(tmp_path, name, large, "dev")

    monkeypatch.setattr("trsched.engines.open_sglang.find_spec", lambda name: "found")
    monkeypatch.setattr("trsched.engines.fetch.fetch_hf_files", fetch)
    lines: list[str] = []
    config = group_config(
        data(model("here", small), model("there", "some/Body", revision="dev"), max_active=1)
    )
    plan = fetch_and_check(config, lines.append)
    assert fetched == [("some/Body", "dev", "models[1].path")]
    assert lines == ["model 1 there: fetching some/Body from the hub"]
    assert len(plan.vocabularies) == 2


def test_weights_in_other_formats_only(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trsched.models.hf_files import fetch_hf_files

    (small / "model.safetensors").rename(small / "pytorch_model.bin")
    in_cache(tmp_path, "some/Body", small)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *args, **kwargs: "")
    with pytest.raises(ConfigError, match=r"has no weights in safetensors on the hub"):
        fetch_hf_files("some/Body", None, "models[0].path")


def test_a_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    from trsched.models.hf_files import fetch_hf_files

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError) as caught:
        fetch_hf_files("some/Body", None, "models[0].path")
    assert caught.value.field == "models[0].path"
    assert "'some/Body' cannot be fetched from the hub" in str(caught.value)
