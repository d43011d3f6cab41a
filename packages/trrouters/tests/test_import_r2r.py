"""Routers of the public R2R collection: read as they are, and nothing in them is ever run."""

# ruff: noqa: E402  (without torch this module is skipped before it imports it)

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed: no safetensors")

from tests.support.trrouters.tiny_checkpoints import (
    BOTTLENECK,
    HIDDEN,
    R2R_SMALL,
    TOP_K,
    context,
    plain_scores,
    published_r2r,
    some_rows,
    step_showing,
)
from trrouters import CheckpointError, ModelIdentity, create_router
from trrouters.checkpoint import save_checkpoint
from trrouters.training.import_r2r import import_r2r


def written(path: Path, content: Any, **options: Any) -> Path:
    torch.save(content, path / "router.pt", **options)
    return path / "router.pt"


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        import_r2r(path, large="large")
    said = str(caught.value)
    assert str(path) in said
    assert "\n" not in said
    return said


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before torch 1.6"])
def test_a_published_router_scores_as_its_network(
    tmp_path: Path, normalize: bool, zipped: bool
) -> None:
    content = published_r2r(normalize=normalize)
    path = written(tmp_path, content, _use_new_zipfile_serialization=zipped)
    checkpoint = import_r2r(path, large="Qwen/QwQ-32B")
    assert checkpoint.threshold == 0.44
    assert checkpoint.architecture == {
        "hidden_size": HIDDEN,
        "top_k": TOP_K,
        "widths": BOTTLENECK,
        "expansion": 4,
        "normalize": normalize,
    }
    assert list(checkpoint.pair) == [ModelIdentity(R2R_SMALL), ModelIdentity("Qwen/QwQ-32B")]
    assert checkpoint.tensors.keys() == content["state_dict"].keys() - {"token_embeddings.weight"}

    save_checkpoint(checkpoint, tmp_path / "imported")
    models = (
        ModelIdentity("deepseek-r1-distill-qwen-1.5b", "a", HIDDEN),
        ModelIdentity("qwq-32b", "b"),
    )
    imported = {"checkpoint": str(tmp_path / "imported")}
    router: Any = create_router("r2r", context(models=models), imported)
    assert router.threshold == 0.44
    seen = some_rows(25)
    expected = plain_scores("r2r", checkpoint.tensors, seen)
    assert router.scores(step_showing(seen, 25)).numpy() == pytest.approx(expected, abs=1e-6)


def test_the_small_models_name_may_be_given(tmp_path: Path) -> None:
    content = published_r2r()
    path = written(tmp_path, content)
    assert import_r2r(path, large="l", small="my-slm").pair[0] == ModelIdentity("my-slm")
    del content["init_args"]["pretrained_model_name"]
    assert "does not name its small model" in refusal(written(tmp_path, content))


def test_a_file_without_the_embedding(tmp_path: Path) -> None:
    """The authors publish both kinds."""
    content = published_r2r()
    del content["state_dict"]["token_embeddings.weight"]
    assert import_r2r(written(tmp_path, content), large="large").threshold == 0.44


# --- code


class Malice:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("where", ["model_type", "model_specific_args", "state_dict"])
@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_file_is_refused_and_does_not_run(
    tmp_path: Path, where: str, zipped: bool
) -> None:
    done = tmp_path / "done"
    content = published_r2r()
    malice = Malice(done)
    content[where] = {**content[where], "x": malice} if where == "state_dict" else malice
    path = written(tmp_path, content, _use_new_zipfile_serialization=zipped)
    assert "refused" in refusal(path)
    assert not done.exists()
    torch.load(path, weights_only=False)
    assert done.exists(), "the file would have run it"


def test_a_plain_pickle_is_refused_and_does_not_run(tmp_path: Path) -> None:
    path = tmp_path / "router.pt"
    path.write_bytes(pickle.dumps(Malice(tmp_path / "done")))
    assert "refused" in refusal(path)
    assert not (tmp_path / "done").exists()


# --- damage


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.binary(max_size=300))
def test_garbage_is_refused(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "garbage.pt"
    path.write_bytes(garbage)
    refusal(path)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_file_is_refused(tmp_path: Path, zipped: bool) -> None:
    whole = written(tmp_path, published_r2r(), _use_new_zipfile_serialization=zipped).read_bytes()
    path = tmp_path / "truncated.pt"
    for length in [0, 1, 100, *range(0, len(whole), len(whole) // 9), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refusal(path)


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "photos.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("photo.txt", "a photo")
    assert "not a file of torch.save" in refusal(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.update(model_type="HiddenStatesClassifier"), "'HiddenStatesClassifier'"),
        (lambda c: c.pop("model_type"), "None routers"),
        (lambda c: c.pop("state_dict"), "no state_dict"),
        (lambda c: c.update(state_dict=[]), "no state_dict"),
        (lambda c: c.update(init_args=None), "no init_args"),
        (lambda c: c.update(common_args=3), "no common_args"),
        (lambda c: c["common_args"].pop("threshold"), "no threshold"),
        (lambda c: c["common_args"].update(threshold="0.5"), "no threshold"),
        (lambda c: c["common_args"].update(threshold=1.5), "threshold must be from 0 to 1"),
        (lambda c: c["common_args"].update(threshold=float("nan")), "threshold must be"),
        (lambda c: c["state_dict"].update(extra=3), "'extra' of state_dict is not"),
        (lambda c: c["state_dict"].update({7: torch.ones(1)}), "7 of state_dict is not"),
        (lambda c: c["state_dict"].update(extra=torch.ones(1)), "tensor 'extra' has no use"),
        (lambda c: c["init_args"].update(hidden_dims=[16, 24]), "backbone"),
        (lambda c: c["init_args"].update(hidden_dims=16), "architecture"),
        (lambda c: c["init_args"].update(hidden_dims=[]), "widths must be at least 1"),
        (lambda c: c["init_args"].update(expansion_factor="4"), "architecture"),
        (lambda c: c["init_args"].update(normalize_input=True), "no tensor 'layer_norm"),
    ],
)
def test_what_is_no_router_of_this_kind_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    content = published_r2r()
    change(content)
    assert said in refusal(written(tmp_path, content))


@pytest.mark.parametrize("content", [[1, 2], "text", torch.ones(3), {}])
def test_other_data_is_refused(tmp_path: Path, content: Any) -> None:
    refusal(written(tmp_path, content))


def test_every_tensor_but_the_embedding_is_needed(tmp_path: Path) -> None:
    for name in published_r2r()["state_dict"].keys() - {"token_embeddings.weight"}:
        content = published_r2r()
        del content["state_dict"][name]
        said = refusal(written(tmp_path, content))
        assert f"no tensor {name!r}" in said or f"no {name}" in said


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        import_r2r(tmp_path / "none.pt", large="large")
