"""Models by their weights: fingerprints of files, and routers trained for certain ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="trrouters[torch] is not installed")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed")

from tests.support.trsched.random_routers import NETWORKS, random_checkpoint
from trrouters import ModelIdentity
from trrouters.checkpoint import RouterCheckpoint, save_checkpoint
from trsched.errors import ConfigError
from trsched.models.weights_fingerprint import weights_fingerprint
from trsched.plan.check import check_group
from trsched.plan.config import GroupConfig, group_config

LARGE = 5 << 20  # more than the 64 pieces of 64 KiB that are read


def written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return weights_fingerprint(path)


@pytest.fixture
def content() -> bytes:
    return b"GGUF" + bytes(range(256)) * (LARGE // 256)


def test_equal_copies_have_one_name(tmp_path: Path, content: bytes) -> None:
    first = written(tmp_path / "model.gguf", content)
    assert first.startswith("gguf-")
    for name in ("renamed.gguf", "model.part", "blob"):
        assert written(tmp_path / name, content) == first


@pytest.mark.parametrize("size", [0, 1, 100, 1 << 16, (1 << 16) + 1, 4 << 20])
def test_every_byte_of_a_small_file_counts(tmp_path: Path, size: int) -> None:
    content = bytes(size)
    first = written(tmp_path / "whole", content)
    assert first.startswith("file-")
    for place in {0, size // 3, size // 2, size - 1} if size else ():
        changed = content[:place] + b"x" + content[place + 1 :]
        assert written(tmp_path / f"at-{place}", changed) != first


def test_sizes_differ(tmp_path: Path, content: bytes) -> None:
    sizes = (0, 1, 2, 1 << 16, (1 << 16) + 1, LARGE - 1, LARGE, LARGE + 1)
    assert len({written(tmp_path / str(size), bytes(size)) for size in sizes}) == len(sizes)
    assert written(tmp_path / "a", content) != written(tmp_path / "b", content + b"\0")


def test_fine_tunes_of_a_large_model_differ(tmp_path: Path, content: bytes) -> None:
    """Not every byte of it is read, but they differ nearly everywhere."""
    first = written(tmp_path / "model.gguf", content)
    for start in (100, LARGE // 2, LARGE - 300_000):
        tuned = content[:start] + bytes(200_000) + content[start + 200_000 :]
        assert written(tmp_path / f"from-{start}", tuned) != first


def test_the_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    first = written(tmp_path / "model", b"one")
    assert written(tmp_path / "model", b"another") != first


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        weights_fingerprint(tmp_path / "none.gguf")


def pair(models: list[dict[str, Any]], router: str, **settings: Any) -> GroupConfig:
    return group_config(
        {
            "name": "test",
            "models": models,
            "router": {"name": router, "settings": settings},
            "context": 64,
            "max_active": 2,
        }
    )


def profile(name: str) -> dict[str, Any]:
    return {"engine": "profile", "name": name, "step_ms": [1.0]}


def refusal(config: GroupConfig) -> str:
    with pytest.raises(ConfigError) as caught:
        check_group(config)
    assert caught.value.field == "router.settings"
    return str(caught.value)


def test_identities_of_models_without_files() -> None:
    config = pair([profile("small"), profile("large")], "bernoulli")
    assert check_group(config).identities == (
        ModelIdentity("small", "profile-small"),
        ModelIdentity("large", "profile-large"),
    )


@pytest.mark.parametrize("algorithm", NETWORKS)
def test_a_router_of_another_pair(tmp_path: Path, algorithm: str) -> None:
    theirs = [ModelIdentity("tiny", "gguf-11"), ModelIdentity("Qwen/huge")]
    checkpoint = random_checkpoint(algorithm, tmp_path, theirs)
    config = pair([profile("small"), profile("large")], algorithm, checkpoint=checkpoint)
    said = refusal(config)
    assert "trained for tiny (gguf-11) + Qwen/huge, not for " in said
    assert "not for small (profile-small) + large (profile-large)" in said


def test_a_router_of_these_weights(slm: Path, tmp_path: Path) -> None:
    """Whatever file they are in, and only in this order."""
    copy = tmp_path / "copy.gguf"
    shutil.copy(slm, copy)
    with copy.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")  # another fine-tune
    models = [
        {"engine": "llamacpp", "name": name, "path": str(path)}
        for name, path in (("small", slm), ("tuned", copy))
    ]
    identities = check_group(pair(models, "bernoulli")).identities
    assert [identity.hidden_size for identity in identities] == [576, 576]
    assert identities[0].fingerprint != identities[1].fingerprint
    checkpoint = random_checkpoint("citer", tmp_path / "router", identities)
    renamed = [{**model, "name": f"other {i}"} for i, model in enumerate(models)]
    plan = check_group(pair(renamed, "citer", checkpoint=checkpoint))
    assert [sorted(router.needs) for router in plan.routers] == [["hidden_states"], []]
    said = refusal(pair(models[::-1], "citer", checkpoint=checkpoint))
    assert f"small ({identities[0].fingerprint}) + tuned ({identities[1].fingerprint})" in said


def test_a_router_of_another_width(slm: Path, tmp_path: Path) -> None:
    """Known by the models' names only, as routers published elsewhere are."""
    save_checkpoint(
        RouterCheckpoint(
            "co_llm",
            {"hidden_size": 896},
            0.5,
            [ModelIdentity("small"), ModelIdentity("large")],
            {},
        ),
        tmp_path,
    )
    models = [{"engine": "llamacpp", "name": name, "path": str(slm)} for name in ("small", "large")]
    said = refusal(pair(models, "co_llm", checkpoint=str(tmp_path)))
    assert "reads hidden states of 896, small has 576" in said
