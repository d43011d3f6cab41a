"""The public labelled sets, where a copy lies beside the checkout (they are not part of it)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbalance import Summary, read_records, summarise

DATA = Path(__file__).resolve().parents[5] / "shared" / "data"


def summary(name: str) -> Summary:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"shared/data/{name} does not lie beside this checkout")
    return summarise(read_records(path))


def test_mmlu_pro_has_the_four_tier_pool() -> None:
    found = summary("mmlu_pro.jsonl.gz")
    assert (found.prompts, len(found.complete_models)) == (12_032, 26)
    pool = {
        "Phi-3-mini-4k-instruct": 0.415,
        "Meta-Llama-3_1-8B-Instruct": 0.442,
        "Mixtral-8x7B-Instruct-v0.1": 0.419,
        "Meta-Llama-3_1-70B-Instruct": 0.628,
    }
    assert set(pool) <= set(found.complete_models)
    for name, quality in pool.items():
        assert found.models[name].quality == pytest.approx(quality, abs=5e-4)
        assert found.models[name].lengths == found.prompts


@pytest.mark.parametrize(
    ("name", "prompts", "models"),
    [("zeroeval_crux.jsonl.gz", 800, 51), ("zeroeval_math-l5.jsonl.gz", 721, 43)],
)
def test_zeroeval_has_the_qwen_tiers(name: str, prompts: int, models: int) -> None:
    found = summary(name)
    assert (found.prompts, len(found.models)) == (prompts, models)
    tiers = {f"Qwen2.5-{size}-Instruct" for size in ("3B", "7B", "32B", "72B")}
    assert tiers <= set(found.models)


def test_routellm_has_two_models_and_lengths_for_gsm8k_only() -> None:
    found = summary("routellm_gsm8k_mmlu.jsonl.gz")
    assert (found.prompts, len(found.models)) == (15_361, 2)
    assert found.sources == {"routellm/gsm8k": 1_319, "routellm/mmlu": 14_042}
    assert {model.lengths for model in found.models.values()} == {1_319}
    best_single = max(model.quality for model in found.models.values())
    assert best_single < found.oracle_quality <= 1.0
