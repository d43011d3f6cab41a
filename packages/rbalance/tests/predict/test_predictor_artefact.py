"""rbalance.predict.predictor_artefact: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packages.rbalance.tests.predict.test_knn import training_set
from rbalance.errors import ArtefactError, ConfigError
from rbalance.predict.knn import KnnFit, KnnPredictor, fit_knn
from rbalance.predict.predictor_artefact import load_predictor, load_prior, save_predictor
from tests.support.rbalance.word_embedder import WordEmbedder

safetensors = pytest.importorskip(
    "safetensors.numpy", reason="rbalance[predict] is not installed: no safetensors"
)
pytest.importorskip("faiss", reason="rbalance[predict] is not installed: no faiss")


def fitted() -> KnnFit:
    return fit_knn(training_set(np.random.default_rng(0), 30, 3, 0.3), WordEmbedder(), k=4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_predictor(fitted(), tmp_path / "made" / "predictor", {"files": ["toy"]})
    return tmp_path / "made" / "predictor"


def change_header(folder: Path, **changes: Any) -> None:
    path = folder / "predictor.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_array(folder: Path, name: str, array: np.ndarray[Any, Any]) -> None:
    path = folder / "predictor.safetensors"
    safetensors.save_file({**safetensors.load_file(path), name: array}, path)


def test_a_predictor_predicts_the_same_once_it_was_written_and_read(folder: Path) -> None:
    embedder = WordEmbedder()
    asked = ["snow on the river", "a proof", ""]
    before = KnnPredictor(fitted(), embedder).predict(asked)
    after = KnnPredictor(load_predictor(folder), embedder).predict(asked)
    np.testing.assert_array_equal(before.quality, after.quality)
    np.testing.assert_array_equal(before.length, after.length)
    assert sorted(path.name for path in folder.iterdir()) == [
        "predictor.json",
        "predictor.safetensors",
    ]


def test_the_prior_is_read_without_the_arrays(folder: Path) -> None:
    (folder / "predictor.safetensors").unlink()
    prior, fit = load_prior(folder), fitted()
    assert prior.models == fit.prior.models
    np.testing.assert_array_equal(prior.quality, fit.prior.quality)
    np.testing.assert_array_equal(prior.length, fit.prior.length)


def test_writing_again_replaces_what_is_there(folder: Path) -> None:
    other = fit_knn(training_set(np.random.default_rng(9), 8, 2, 0.0), WordEmbedder())
    loaded = load_predictor(folder)
    save_predictor(other, folder)
    assert len(load_predictor(folder).vectors) == 8
    assert loaded.vectors.shape == (30, 64)


def test_another_embedder_than_the_artefacts_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"words-64.*other"):
        KnnPredictor(load_predictor(folder), WordEmbedder(fingerprint="other"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "rbalance-predictor-2"}, "format 'rbalance-predictor-2' is not"),
        ({"models": []}, "no model, or one twice"),
        ({"models": [{"name": "m", "quality": 0.5, "length": 9}] * 3}, "no model, or one twice"),
        ({"models": [{"name": "m", "quality": 1.5, "length": 9}]}, "no such quality or length"),
        ({"models": [{"name": "m", "quality": 0.5, "length": 0}]}, "no such quality or length"),
        ({"k": 0}, "k, prompts or prior_weight is too small"),
        ({"prior_weight": -1.0}, "k, prompts or prior_weight is too small"),
        ({"k": "ten"}, "Expected `int`, got `str`"),
        ({"pickle": 1}, "unknown field"),
        ({"prompts": 31}, r"\[30, 64\], not float16 \[31, 64\]"),
        (
            {"embedder": {"name": "words", "fingerprint": "f", "dimension": 65}},
            r"vectors is float16 \[30, 64\], not float16 \[30, 65\]",
        ),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(
    folder: Path, changes: dict[str, Any], said: str
) -> None:
    change_header(folder, **changes)
    with pytest.raises(ArtefactError, match=said) as caught:
        load_predictor(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("vectors", np.full((30, 64), np.nan, np.float16), "not finite"),
        ("vectors", np.zeros((30, 64), np.float32), "vectors is float32"),
        ("quality", np.full((30, 3), 2, np.float32), "out of range"),
        ("length", np.full((30, 3), np.inf, np.float32), "out of range"),
        ("digests", np.zeros(29, np.uint64), r"digests is uint64 \[29\]"),
        ("more", np.zeros(1, np.float32), "holds"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(
    folder: Path, name: str, array: np.ndarray[Any, Any], said: str
) -> None:
    change_array(folder, name, array)
    with pytest.raises(ArtefactError, match=said):
        load_predictor(folder)


@pytest.mark.parametrize("name", ["predictor.json", "predictor.safetensors"])
def test_a_missing_or_broken_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\xff\x00 nonsense")
    with pytest.raises(ArtefactError, match=name):
        load_predictor(folder)
    (folder / name).unlink()
    with pytest.raises(ArtefactError, match=f"{name}.*No such file"):
        load_predictor(folder)
