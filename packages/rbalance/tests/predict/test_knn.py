"""knn: the average of labelled neighbours, and what happens where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbalance.errors import ConfigError, TrainingError
from rbalance.labels.training_set import TrainingSet
from rbalance.predict.knn import KnnFit, KnnPredictor, fit_knn
from rbalance.predict.leave_one_out import PRIOR_WEIGHTS, best_neighbourhood
from rbalance.predict.nearest import NearestPrompts
from rbalance.predict.neighbour_average import NEAR
from tests.support.rbalance.arrays import NAN, f32
from tests.support.rbalance.word_embedder import WordEmbedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytest.importorskip("faiss", reason="rbalance[predict] is not installed: no faiss")

WORDS = ("sum", "river", "verse", "query", "proof", "snow")


def training_set(
    rng: np.random.Generator, prompts: int, models: int, missing: float
) -> TrainingSet:
    """Random prompts and labels; the first prompt has every label."""
    quality = rng.random((prompts, models), np.float32)
    length = rng.integers(1, 900, (prompts, models)).astype(np.float32)
    for labels in (quality, length):
        gaps = rng.random(labels.shape) < missing
        gaps[0] = False
        labels[gaps] = NAN
    words = rng.choice(WORDS, (prompts, 4))
    return TrainingSet(
        tuple(f"m{index}" for index in range(models)),
        tuple(" ".join(row) for row in words),
        quality,
        length,
    )


def expected(
    data: TrainingSet,
    embedder: WordEmbedder,
    prompt: str,
    labels: NDArray[np.float32],
    fit: KnnFit,
) -> list[tuple[float, bool]]:
    """The rule in plain Python: for each model its mean and whether a neighbour had a label.

    Neighbours beyond the k-th that are as near as the k-th make the answer ambiguous: then NaN.
    """
    vectors = embedder.embed(data.prompts).astype(np.float16).astype(np.float32)
    near = (vectors @ embedder.embed([prompt])[0]).tolist()
    order = sorted(range(len(near)), key=lambda row: -near[row])
    k = min(fit.k, len(near))
    tie = len(order) > k and abs(near[order[k - 1]] - near[order[k]]) < 1e-5
    found = []
    for column in range(len(data.models)):
        total = weight = 0.0
        for row in order[:k]:
            label = float(labels[row, column])
            if label == label:
                share = NEAR / (max(1.0 - near[row], 0.0) + NEAR)
                total, weight = total + share * label, weight + share
        known = weight > 0
        share = fit.prior_weight if known else 1.0
        mean = (total + share * float(np.nanmean(labels[:, column]))) / (weight + share)
        found.append((NAN if tie else mean, known))
    return found


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    prompts=st.integers(1, 30),
    models=st.integers(1, 4),
    missing=st.sampled_from([0.0, 0.5, 0.95]),
    k=st.integers(1, 12),
)
def test_it_is_the_weighted_mean_of_the_labelled_neighbours(
    seed: int, prompts: int, models: int, missing: float, k: int
) -> None:
    rng = np.random.default_rng(seed)
    data = training_set(rng, prompts, models, missing)
    embedder = WordEmbedder()
    fit = fit_knn(data, embedder, k)
    predictor = KnnPredictor(fit, embedder)
    asked = [" ".join(rng.choice(WORDS, 3)) for _ in range(3)]

    found = predictor.predict(asked)

    assert found.quality.dtype == found.length.dtype == np.float32
    assert np.isfinite(found.quality).all()
    assert np.isfinite(found.length).all()
    assert found.quality.shape == found.length.shape == found.from_prior.shape == (3, models)
    for row, prompt in enumerate(asked):
        for got, labels in ((found.quality, data.quality), (found.length, data.length)):
            for column, (mean, known) in enumerate(expected(data, embedder, prompt, labels, fit)):
                if mean != mean:
                    continue
                assert got[row, column] == pytest.approx(mean, rel=1e-4, abs=1e-4)
                if labels is data.quality:
                    assert found.from_prior[row, column] == (not known)


def test_a_prompt_that_was_learned_gets_its_own_labels_where_labels_can_be_trusted() -> None:
    topics = [f"snow on river {number}" for number in range(20)]
    topics += [f"proof of sum {number}" for number in range(20)]
    first = f32([[1.0]] * 20 + [[0.0]] * 20)
    embedder = WordEmbedder(256)
    fit = fit_knn(TrainingSet(("m",), tuple(topics), first, 90 - 80 * first), embedder)
    found = KnnPredictor(fit, embedder).predict(["snow on river 3", "proof of sum 3"])
    assert fit.prior_weight == 0.0
    np.testing.assert_allclose(found.quality, [[1], [0]], atol=0.01)
    np.testing.assert_allclose(found.length, [[10], [90]], atol=1)


def test_the_less_neighbours_say_the_more_the_prior_counts() -> None:
    rng = np.random.default_rng(8)
    vectors = rng.normal(size=(600, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    noise = (rng.random((600, 2)) < 0.6).astype(np.float32)
    told = (vectors[:, :2] > 0).astype(np.float32)
    of_noise = best_neighbourhood(vectors, noise, noise.mean(axis=0))
    of_told = best_neighbourhood(vectors, told, told.mean(axis=0))
    assert of_noise[1] == max(PRIOR_WEIGHTS)
    assert of_told[1] == 0.0


def test_leaving_one_out_is_predicting_each_prompt_from_the_others() -> None:
    rng = np.random.default_rng(6)
    embedder = WordEmbedder()
    data = training_set(rng, 25, 2, 0.3)
    vectors = rng.normal(size=(25, 8)).astype(np.float32)  # no two as near as each other
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    fit = fit_knn(data, embedder, 3)
    errors = {}
    for k in (2, 5):
        for prior_weight in PRIOR_WEIGHTS:
            squares = []
            for row in range(25):
                others = np.arange(25) != row
                less = replace(
                    fit,
                    vectors=vectors[others],
                    quality=data.quality[others],
                    length=data.length[others],
                    k=k,
                    prior_weight=prior_weight,
                )
                found = KnnPredictor(less, embedder).predict_vectors(vectors[row : row + 1])
                squares.append(np.square(found.quality[0] - data.quality[row]))
            errors[k, prior_weight] = np.nanmean(squares)
    best = best_neighbourhood(vectors, data.quality, fit.prior.quality, (2, 5))
    assert errors[best] == pytest.approx(min(errors.values()), rel=1e-4)


def test_one_call_embeds_the_whole_batch_and_an_empty_batch_is_fine() -> None:
    embedder = WordEmbedder()
    data = training_set(np.random.default_rng(1), 20, 2, 0.0)
    predictor = KnnPredictor(fit_knn(data, embedder), embedder)
    embedder.seen.clear()
    predictor.predict(["snow", "verse", "sum"])
    assert embedder.seen == [["snow", "verse", "sum"]]
    assert predictor.predict([]).quality.shape == (0, 2)


def test_a_vector_that_is_not_finite_gets_the_prior_and_spoils_no_other() -> None:
    embedder = WordEmbedder()
    data = training_set(np.random.default_rng(2), 20, 3, 0.2)
    predictor = KnnPredictor(fit_knn(data, embedder), embedder)
    vectors = embedder.embed(["snow verse", "river", "sum proof"])
    alone = predictor.predict_vectors(vectors)
    vectors[1, 5] = NAN

    found = predictor.predict_vectors(vectors)

    np.testing.assert_array_equal(found.from_prior[1], True)
    np.testing.assert_array_equal(found.quality[1], predictor.prior.quality)
    np.testing.assert_array_equal(found.length[1], predictor.prior.length)
    np.testing.assert_array_equal(found.quality[[0, 2]], alone.quality[[0, 2]])


def test_the_prior_is_the_mean_over_what_is_labelled() -> None:
    data = TrainingSet(
        ("a", "b"),
        ("one", "two", "three"),
        f32([[1, NAN], [0, 0.25], [NAN, 0.75]]),
        f32([[100, 0], [NAN, 0], [50, NAN]]),
    )
    prior = fit_knn(data, WordEmbedder()).prior
    np.testing.assert_allclose(prior.quality, [0.5, 0.5])
    np.testing.assert_allclose(prior.length, [75, 1])  # an answer has at least a token
    repeated = prior.predictions(2)
    np.testing.assert_array_equal(repeated.length, f32([[75, 1], [75, 1]]))
    assert repeated.from_prior.all()


def test_a_model_without_any_length_needs_a_default() -> None:
    data = TrainingSet(("a", "b"), ("one",), f32([[1, 0]]), f32([[100, NAN]]))
    with pytest.raises(TrainingError, match=r"'b' has a known length.*default_length"):
        fit_knn(data, WordEmbedder())
    embedder = WordEmbedder()
    fit = fit_knn(data, embedder, default_length=200.0)
    np.testing.assert_allclose(fit.prior.length, [100, 200])
    np.testing.assert_allclose(KnnPredictor(fit, embedder).predict(["one"]).length, [[100, 200]])


@pytest.mark.parametrize(
    ("field", "arguments"),
    [("k", {"k": 0}), ("default_length", {"default_length": NAN})],
)
def test_bad_settings_are_named(field: str, arguments: dict[str, Any]) -> None:
    data = training_set(np.random.default_rng(0), 5, 1, 0.0)
    with pytest.raises(ConfigError) as caught:
        fit_knn(data, WordEmbedder(), **arguments)
    assert caught.value.field == field


def test_another_embedder_is_refused_by_both_fingerprints() -> None:
    data = training_set(np.random.default_rng(0), 5, 1, 0.0)
    fit = fit_knn(data, WordEmbedder(fingerprint="one"))
    with pytest.raises(ConfigError, match=r"embedder: .*\(one\).*\(two\)"):
        KnnPredictor(fit, WordEmbedder(fingerprint="two"))


def test_progress_counts_every_prompt() -> None:
    data = training_set(np.random.default_rng(0), 150, 1, 0.0)
    done: list[int] = []
    fit_knn(data, WordEmbedder(), advanced=done.append)
    assert sum(done) == 150
    assert len(done) > 1


def test_an_inverted_index_finds_nearly_the_same() -> None:
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(40, 32))
    vectors = (centres[rng.integers(40, size=4000)] + 0.3 * rng.normal(size=(4000, 32))).astype(
        np.float32
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    _, exact = NearestPrompts(vectors).search(vectors[:200], 10)
    _, quick = NearestPrompts(vectors, "ivf").search(vectors[:200], 10)
    shared = [
        len(set(a) & set(b)) / 10 for a, b in zip(exact.tolist(), quick.tolist(), strict=True)
    ]
    assert np.mean(shared) > 0.9


def test_an_inverted_index_of_few_prompts_works_too() -> None:
    embedder = WordEmbedder()
    data = training_set(np.random.default_rng(4), 3, 2, 0.0)
    predictor = KnnPredictor(fit_knn(data, embedder), embedder, "ivf")
    assert np.isfinite(predictor.predict(["snow", "entirely different"]).quality).all()


def test_a_search_leaves_the_callers_number_of_threads_alone() -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    nearest = NearestPrompts(np.eye(8, dtype=np.float32))
    faiss.omp_set_num_threads(2)
    try:
        nearest.search(np.eye(8, dtype=np.float32), 3)
        assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(before)


@pytest.mark.parametrize("queries", [1, 3, 4, 40])
def test_few_and_many_queries_find_the_same(queries: int) -> None:
    rng = np.random.default_rng(11)
    vectors = rng.normal(size=(300, 24)).astype(np.float16).astype(np.float32)
    asked = rng.normal(size=(queries, 24)).astype(np.float32)
    similarity, rows = NearestPrompts(vectors).search(asked, 5)
    exact = asked.astype(np.float64) @ vectors.T.astype(np.float64)
    np.testing.assert_array_equal(rows, np.argsort(-exact, axis=1)[:, :5])
    np.testing.assert_allclose(similarity, np.take_along_axis(exact, rows, axis=1), rtol=1e-4)
