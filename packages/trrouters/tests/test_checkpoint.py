"""Trained routers on disk: what is written is what is read, and everything else is refused."""

# ruff: noqa: E402  (without torch this module is skipped before it imports it)

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed: no safetensors")

from safetensors.torch import save_file

from tests.support.trrouters.tiny_checkpoints import (
    NETWORKS,
    PAIR,
    context,
    edit_config,
    plain_scores,
    saved,
    some_rows,
    step_showing,
    tiny_checkpoint,
    tiny_tensors,
)
from trrouters import CheckpointError, create_router
from trrouters.checkpoint import (
    CONFIG_FILE,
    TENSORS_FILE,
    load_checkpoint,
    save_checkpoint,
)

TRAINED = sorted(NETWORKS)
trained = pytest.mark.parametrize("algorithm", TRAINED)


def refusal(algorithm: str, folder: Path | str) -> str:
    """What is said when the checkpoint is refused: one line."""
    with pytest.raises(CheckpointError) as caught:
        create_router(algorithm, context(), {"checkpoint": str(folder)})
    said = str(caught.value)
    assert said
    assert "\n" not in said
    return said


# --- what is written is what is read


@trained
def test_everything_returns(tmp_path: Path, algorithm: str) -> None:
    checkpoint = tiny_checkpoint(algorithm, threshold=0.123456789, training={"rows": 5, "é": [1.5]})
    save_checkpoint(checkpoint, tmp_path / "new" / "folder")
    found = load_checkpoint(tmp_path / "new" / "folder", algorithm)
    assert found.algorithm == algorithm
    assert found.architecture == checkpoint.architecture
    assert found.threshold == checkpoint.threshold
    assert [(m.name, m.fingerprint) for m in found.pair] == [(m.name, m.fingerprint) for m in PAIR]
    assert found.training == checkpoint.training
    assert found.source == str(tmp_path / "new" / "folder")
    assert found.tensors.keys() == checkpoint.tensors.keys()
    for name, tensor in checkpoint.tensors.items():
        assert torch.equal(found.tensors[name].to(tensor.dtype), tensor), name


@trained
def test_scores_return_as_close_as_half_precision_is(tmp_path: Path, algorithm: str) -> None:
    exact = {
        name: tensor * (1 + 1e-5) if tensor.is_floating_point() else tensor
        for name, tensor in tiny_tensors(algorithm, 3).items()
    }
    seen = some_rows(30)
    folder = saved(tmp_path, algorithm, tensors=exact)
    router: Any = create_router(algorithm, context(), {"checkpoint": folder})
    scores = router.scores(step_showing(seen, 30)).numpy()
    assert scores == pytest.approx(plain_scores(algorithm, exact, seen), abs=2e-3)
    stored = load_checkpoint(folder).tensors.values()
    assert {t.dtype for t in stored} <= {torch.float16, torch.int64}


def test_numbers_beyond_half_precision_are_kept(tmp_path: Path) -> None:
    tensors = tiny_tensors("co_llm")
    tensors["row.bias"] = torch.tensor([123_456.0])
    found = load_checkpoint(saved(tmp_path, "co_llm", tensors=tensors)).tensors["row.bias"]
    assert found.item() == 123_456.0


@trained
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float8_e5m2])
def test_any_float_type_is_read(tmp_path: Path, algorithm: str, dtype: Any) -> None:
    folder = saved(tmp_path, algorithm)
    tensors = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in tiny_tensors(algorithm).items()
    }
    save_file(tensors, tmp_path / TENSORS_FILE)
    router: Any = create_router(algorithm, context(), {"checkpoint": folder})
    seen = some_rows(5)
    expected = plain_scores(algorithm, tensors, seen)
    assert router.scores(step_showing(seen, 5)).numpy() == pytest.approx(expected, abs=1e-5)


def test_a_checkpoint_can_be_saved_where_it_was_loaded_from(tmp_path: Path) -> None:
    folder = Path(saved(tmp_path, "r2r"))
    before = (folder / TENSORS_FILE).read_bytes()
    save_checkpoint(load_checkpoint(folder), folder)
    assert (folder / TENSORS_FILE).read_bytes() == before


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_no_reader_could_read_is_not_written(tmp_path: Path, number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        saved(tmp_path, "co_llm", training={"loss": number})
    assert not (tmp_path / CONFIG_FILE).exists()


# --- files


def remove_config(folder: Path) -> None:
    (folder / CONFIG_FILE).unlink()


def remove_tensors(folder: Path) -> None:
    (folder / TENSORS_FILE).unlink()


def pickled_tensors(folder: Path) -> None:
    (folder / TENSORS_FILE).write_bytes(pickle.dumps({"row.bias": [1.0]}))


def truncated_tensors(folder: Path) -> None:
    whole = (folder / TENSORS_FILE).read_bytes()
    (folder / TENSORS_FILE).write_bytes(whole[:-3])


def folder_of_tensors(folder: Path) -> None:
    remove_tensors(folder)
    (folder / TENSORS_FILE).mkdir()


def config_text(text: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / CONFIG_FILE).write_bytes(text)


def config_field(name: str, value: Any) -> Callable[[Path], object]:
    return lambda folder: edit_config(folder, lambda config: config.update({name: value}))


def without(name: str) -> Callable[[Path], object]:
    return lambda folder: edit_config(folder, lambda config: config.pop(name))


@pytest.mark.parametrize(
    ("spoil", "file", "said"),
    [
        (remove_config, CONFIG_FILE, "No such file"),
        (config_text(b""), CONFIG_FILE, "truncated"),
        (config_text(b"threshold: 0.5\n"), CONFIG_FILE, "malformed"),
        (config_text(b'{"format": "\xff"}'), CONFIG_FILE, "UTF-8"),
        (config_text(b"[]"), CONFIG_FILE, "expected `object`"),
        (config_text(b'{"training": ' + b'{"a":' * 5000), CONFIG_FILE, "recursion"),
        (config_field("treshold", 0.5), CONFIG_FILE, "unknown field `treshold`"),
        (without("pair"), CONFIG_FILE, "missing required field `pair`"),
        (config_field("format", "trrouters-2"), CONFIG_FILE, "format 'trrouters-2'"),
        (config_field("threshold", -0.1), CONFIG_FILE, "threshold must be from 0 to 1, not -0.1"),
        (config_field("threshold", 1.5), CONFIG_FILE, "threshold must be from 0 to 1, not 1.5"),
        (config_field("threshold", math.nan), CONFIG_FILE, "malformed"),
        (config_field("threshold", "0.5"), CONFIG_FILE, "threshold"),
        (config_field("threshold", None), CONFIG_FILE, "threshold"),
        (config_field("architecture", [1]), CONFIG_FILE, "architecture"),
        (config_field("pair", ["small", "large"]), CONFIG_FILE, "pair"),
        (remove_tensors, TENSORS_FILE, "No such file"),
        (folder_of_tensors, TENSORS_FILE, ""),
        (pickled_tensors, TENSORS_FILE, "not a safetensors file"),
        (truncated_tensors, TENSORS_FILE, "not a safetensors file"),
    ],
)
def test_a_spoilt_file_is_named(
    tmp_path: Path, spoil: Callable[[Path], object], file: str, said: str
) -> None:
    saved(tmp_path, "citer")
    spoil(tmp_path)
    refused = refusal("citer", tmp_path)
    assert str(tmp_path / file) in refused
    assert said.lower() in refused.lower()


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("/nowhere/router", "/nowhere/router"),
        ("x" * 5000, "name too long"),
        ("with\0null", "no such file"),
        ("~no-such-user/router", "no such file: ~no-such-user/router"),
        ("package://no_such_package/router", "pip install no-such-package"),
        ("package://trrouters/no/router", "no file 'no/router'"),
        ("package://trrouters", "package://PACKAGE/FILE"),
    ],
)
def test_a_missing_folder_is_named(folder: str, said: str) -> None:
    assert said in refusal("citer", folder)


@trained
def test_another_algorithms_checkpoint_is_refused(tmp_path: Path, algorithm: str) -> None:
    for other in TRAINED:
        saved(tmp_path / other, other)
        if other != algorithm:
            said = refusal(algorithm, tmp_path / other)
            assert said == f"{tmp_path / other} is a {other!r} router, not {algorithm!r}"


def test_a_checkpoint_inside_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "routers_of_a_pair").mkdir()
    (tmp_path / "routers_of_a_pair" / "__init__.py").write_text("raise RuntimeError('imported')")
    saved(tmp_path / "routers_of_a_pair" / "r2r", "r2r")
    monkeypatch.syspath_prepend(tmp_path)
    found = load_checkpoint("package://routers_of_a_pair/r2r")
    assert found.algorithm == "r2r"
