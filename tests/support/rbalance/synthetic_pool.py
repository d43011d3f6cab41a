"""A small pool of prompts whose labels follow from their vectors, so that policies have something
to learn and tests something to know."""

from __future__ import annotations

import numpy as np

from rbalance.cluster import ARTICLE_MODELS
from rbalance.predict.predictions import Predictions, Prior
from rbalance.simulator.prompt_pool import PromptPool

CATEGORIES = ("easy", "hard", "long")


def synthetic_pool(prompts: int = 240, seed: int = 0, dimension: int = 8) -> PromptPool:
    """Easy prompts are answered well by all models, hard ones by the two largest, long ones by all,
    with long answers. Every third prompt is held out."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, len(CATEGORIES), prompts)
    centres = np.eye(dimension)[: len(CATEGORIES)]
    vectors = centres[kind] + random.normal(0, 0.15, (prompts, dimension))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    good = np.array([[0.9, 0.9, 0.92, 0.95], [0.1, 0.3, 0.6, 0.8], [0.7, 0.75, 0.8, 0.85]])
    expected = good[kind].astype(np.float32)
    quality = (random.random(expected.shape) < expected).astype(np.float32)
    mean_length = np.array([60.0, 100.0, 300.0])[kind][:, None] * np.array([1.0, 1.0, 0.9, 1.1])
    length = np.maximum(1, random.gamma(4.0, mean_length / 4.0)).astype(np.float32)
    prompt = random.integers(20, 400, prompts).astype(np.int32)
    held = np.arange(prompts) % 3 == 0
    prior = Prior(
        ARTICLE_MODELS,
        quality[~held].mean(axis=0),
        length[~held].mean(axis=0),
    )
    predicted = Predictions(
        expected[held], mean_length[held].astype(np.float32), np.zeros((held.sum(), 4), np.bool_)
    )
    return PromptPool(
        models=ARTICLE_MODELS,
        prompt=prompt[held],
        length=length[held],
        quality=quality[held],
        predictions=predicted,
        prior=prior,
        vectors=vectors[held],
        train_prompt=prompt[~held],
        train_length=length[~held],
        train_quality=quality[~held],
        train_vectors=vectors[~held],
        train_category=tuple(CATEGORIES[at] for at in kind[~held]),
    )
