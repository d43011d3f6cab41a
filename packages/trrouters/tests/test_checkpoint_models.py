"""A trained router serves the models that it was trained for, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed: no safetensors")

from tests.support.trrouters.tiny_checkpoints import HIDDEN, NETWORKS, PAIR, context, saved
from trrouters import CheckpointError, ModelIdentity, RouterConfigError, create_router

trained = pytest.mark.parametrize("algorithm", sorted(NETWORKS))


def refusal(algorithm: str, folder: str, models: tuple[ModelIdentity, ...]) -> str:
    with pytest.raises(CheckpointError) as caught:
        create_router(algorithm, context(models=models), {"checkpoint": folder})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@trained
@pytest.mark.parametrize(
    "models",
    [
        (PAIR[0], ModelIdentity("large", "weights-9")),  # same name, other weights
        (ModelIdentity("small", "weights-9"), PAIR[1]),
        (PAIR[1], PAIR[0]),
        (PAIR[0], PAIR[1], PAIR[1]),
        (PAIR[0],),
    ],
)
def test_another_pair_is_refused_and_both_are_named(
    tmp_path: Path, algorithm: str, models: tuple[ModelIdentity, ...]
) -> None:
    said = refusal(algorithm, saved(tmp_path, algorithm), models=models)
    ours, theirs = (" + ".join(str(model) for model in pair) for pair in (PAIR, models))
    assert said == f"{tmp_path} was trained for {ours}, not for {theirs}"


@trained
@pytest.mark.parametrize(
    ("small", "fits"),
    [
        ("Qwen/Qwen3-0.6B", True),
        ("qwen3_0.6b", True),
        ("someone/QWEN3 0.6B", True),
        ("Qwen3-6B", False),
        ("Qwen3-0.6B-Base", False),
        ("", False),
    ],
)
def test_a_router_that_knows_names_only_takes_any_spelling(
    tmp_path: Path, algorithm: str, small: str, fits: bool
) -> None:
    names = (ModelIdentity("Qwen/Qwen3-0.6B"), ModelIdentity("Qwen/Qwen3-8B"))
    folder = saved(tmp_path, algorithm, pair=names)
    models = (ModelIdentity(small, "any", HIDDEN), ModelIdentity("qwen3-8b", "other"))
    if fits:
        create_router(algorithm, context(models=models), {"checkpoint": folder})
    else:
        assert "Qwen/Qwen3-0.6B + Qwen/Qwen3-8B" in refusal(algorithm, folder, models=models)


@trained
def test_equal_fingerprints_are_enough(tmp_path: Path, algorithm: str) -> None:
    renamed = (ModelIdentity("a", "weights-1"), ModelIdentity("b", "weights-2"))
    folder = saved(tmp_path, algorithm)
    create_router(algorithm, context(models=renamed), {"checkpoint": folder})


@trained
def test_another_width_of_hidden_states_is_refused(tmp_path: Path, algorithm: str) -> None:
    wider = (ModelIdentity("small", "weights-1", 64), PAIR[1])
    said = refusal(algorithm, saved(tmp_path, algorithm), models=wider)
    assert said == f"{tmp_path} reads hidden states of {HIDDEN}, small has 64"


NAMES = st.sampled_from(["Qwen/Qwen3-0.6B", "qwen3_0.6b", "SmolLM2", "smol-lm2", "other"])
IDENTITIES = st.builds(
    ModelIdentity, NAMES, st.sampled_from([None, "a", "b"]), st.sampled_from([0, 576])
)


@given(IDENTITIES, IDENTITIES)
def test_being_the_same_model_works_both_ways(a: ModelIdentity, b: ModelIdentity) -> None:
    assert a.is_same(a)
    assert a.is_same(b) == b.is_same(a)
    if a.fingerprint and b.fingerprint:
        assert a.is_same(b) == (a.fingerprint == b.fingerprint)


def test_names_in_any_script_differ() -> None:
    assert not ModelIdentity("模型-大").is_same(ModelIdentity("模型-小"))
    assert ModelIdentity("模型-大").is_same(ModelIdentity("模型_大"))


def test_a_refusal_is_an_error_of_the_routers_configuration() -> None:
    assert issubclass(CheckpointError, RouterConfigError)
