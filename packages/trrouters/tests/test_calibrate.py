"""Thresholds do on their rows what was asked for, by the routers' own rules; measures are right."""

# ruff: noqa: E402  (without torch this module is skipped before it imports it)

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed: no safetensors")

from packages.trrouters.tests.tiny_rows import tiny_rows
from tests.support.trrouters.tiny_checkpoints import (
    NETWORKS,
    TOP_K,
    context,
    step_showing,
    tiny_checkpoint,
    tiny_tensors,
)
from trrouters import LogitsOutput, RouterContext, create_router
from trrouters.checkpoint import save_checkpoint
from trrouters.training.calibrate import calibrate_checkpoint, calibrate_entropy, doubt_for
from trrouters.training.evaluate import evaluate
from trrouters.training.ranking import float32_beside, roc_auc, threshold_at_rate
from trrouters.training.rows import Rows
from trrouters.training.trained_algorithm import ALGORITHMS

TRAINED = sorted(NETWORKS)
AIMS = [{"rate": 0.1}, {"rate": 0.37}, {"rate": 1.0}, {"recall": 0.5}, {"recall": 1.0}]
SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1, width=32))


def handed_over(folder: Path, algorithm: str, rows: Rows) -> Any:
    """What the router itself does, served these rows."""
    router = create_router(algorithm, context(vocab=TOP_K), {"checkpoint": str(folder)})
    floats = (rows.top_logits.float(), rows.hidden_states.float(), rows.token_embeddings.float())
    return np.asarray(router.route(step_showing(LogitsOutput(*floats), len(rows)))) == 1


def spread(algorithm: str, scale: float) -> Any:
    """A checkpoint whose scores lie near 0 and 1 (scale > 1) or close together (< 1)."""
    tensors = tiny_tensors(algorithm)
    last = [name for name in tensors if name.endswith("weight") and tensors[name].shape[0] == 1]
    tensors[last[-1]] = (tensors[last[-1]] * scale).half().float()  # as it will be stored
    return tiny_checkpoint(algorithm, tensors=tensors)


@pytest.mark.parametrize("aim", AIMS, ids=str)
@pytest.mark.parametrize("scale", [0.01, 1.0, 4.0])
@pytest.mark.parametrize("algorithm", TRAINED)
def test_the_router_does_what_was_asked_for(
    tmp_path: Path, algorithm: str, scale: float, aim: dict[str, float]
) -> None:
    rows = tiny_rows(200, cut_off=0.1)
    checkpoint, found = calibrate_checkpoint(spread(algorithm, scale), rows, **aim)
    assert checkpoint.threshold == found.threshold
    save_checkpoint(checkpoint, tmp_path)
    handed = handed_over(tmp_path, algorithm, rows)
    divergent = (rows.divergent == 1).numpy()
    # The threshold is a row's score, as the router computes it: that row does as asked, too.
    assert found.rate == pytest.approx(handed.mean())
    assert found.recall == pytest.approx(handed[divergent].mean())
    if "rate" in aim:
        assert found.rate == pytest.approx(math.ceil(aim["rate"] * 200) / 200)
    else:
        wanted = math.ceil(aim["recall"] * divergent.sum())
        assert found.recall == pytest.approx(wanted / divergent.sum())


@pytest.mark.parametrize("aim", AIMS, ids=str)
def test_r_stitchs_tau_does_what_was_asked_for(aim: dict[str, float]) -> None:
    rows = tiny_rows(200)
    found = calibrate_entropy(rows, **aim)
    divergent = (rows.divergent == 1).numpy()
    handed = (rows.entropy > found.threshold).numpy()  # as RStitch.route
    assert (found.rate, found.recall) == (handed.mean(), handed[divergent].mean())
    share, rate = next(iter(aim.items()))
    reached = found.rate if share == "rate" else found.recall
    count = len(rows) if share == "rate" else divergent.sum()
    assert reached == pytest.approx(math.ceil(rate * count) / count)


@given(st.data(), st.sampled_from(TRAINED), st.floats(0.01, 1))
def test_any_scores_give_the_least_threshold_that_reaches_the_rate(
    data: st.DataObject, algorithm: str, rate: float
) -> None:
    scores = np.array(data.draw(SCORES.filter(bool)), dtype=np.float32)
    rule = ALGORITHMS[algorithm]
    doubts = rule.doubts(scores)
    doubt = threshold_at_rate(doubts, rate)
    threshold = rule.threshold(doubt)
    assert 0 <= threshold <= 1
    handed = rule.hands_over(scores, threshold)
    never = np.float32({"citer": 1.0, "co_llm": 0.0}.get(algorithm, -1.0))  # saturated: stays
    assert handed.tolist() == ((doubts >= doubt) & (scores != never)).tolist()
    wanted = math.ceil(round(rate * len(scores), 9))
    assert (doubts >= doubt).sum() >= wanted > (doubts > doubt).sum()


@given(st.floats(0, 1, width=32))
def test_a_threshold_is_read_back_as_the_same_float32(score: float) -> None:
    assert np.float32(float32_beside(score, score)) == np.float32(score)
    above = np.float32(float32_beside(score, 2.0))
    assert above == np.nextafter(np.float32(score), np.float32(2))


def test_no_divergent_row() -> None:
    rows = tiny_rows(50)
    none = replace(rows, divergent=torch.zeros_like(rows.divergent))
    assert calibrate_entropy(none, rate=0.5).recall is None
    with pytest.raises(ValueError, match="no row is divergent"):
        calibrate_entropy(none, recall=0.5)


@pytest.mark.parametrize(
    "aims",
    [{}, {"rate": 0.5, "recall": 0.5}, {"rate": 0.0}, {"rate": 1.1}, {"recall": math.nan}],
)
def test_an_aim_that_cannot_be(aims: dict[str, float]) -> None:
    rows = tiny_rows(20)
    with pytest.raises(ValueError, match="aim"):
        doubt_for(rows, rows.entropy.numpy(), **aims)


# --- measures


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3]) | st.floats(0, 1), st.booleans())))
def test_roc_auc_is_the_share_of_pairs_in_order(rows: list[tuple[float, bool]]) -> None:
    scores = np.array([score for score, _ in rows])
    positive = np.array([kind for _, kind in rows], dtype=bool)
    if positive.all() or not positive.any():
        with pytest.raises(ValueError, match="both kinds"):
            roc_auc(scores, positive)
        return
    pairs = [(p, n) for p in scores[positive] for n in scores[~positive]]
    expected = sum((p > n) + (p == n) / 2 for p, n in pairs) / len(pairs)
    assert roc_auc(scores, positive) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("algorithm", TRAINED)
def test_evaluation_is_that_of_the_router(tmp_path: Path, algorithm: str) -> None:
    rows = tiny_rows(150, cut_off=0.2)
    known = rows.where(rows.divergent >= 0)
    checkpoint, _ = calibrate_checkpoint(spread(algorithm, 1.0), rows, rate=0.3)
    save_checkpoint(checkpoint, tmp_path)
    report = evaluate([replace(checkpoint, source="ours")], rows)
    assert list(report) == ["ours", "entropy (r_stitch)"]
    handed = handed_over(tmp_path, algorithm, known)
    divergent = (known.divergent == 1).numpy()
    assert report["ours"]["rows"] == len(known)
    assert report["ours"]["threshold"] == checkpoint.threshold
    assert report["ours"]["rate"] == pytest.approx(handed.mean())
    assert report["ours"]["recall"] == pytest.approx(handed[divergent].mean())
    for rate in (0.1, 0.3, 0.5):
        asked, _ = calibrate_checkpoint(checkpoint, known, rate=rate)
        save_checkpoint(asked, tmp_path)
        recall = handed_over(tmp_path, algorithm, known)[divergent].mean()
        assert report["ours"][f"recall_at_{rate}"] == pytest.approx(recall)
    expected = roc_auc(known.entropy.numpy(), divergent)
    assert report["entropy (r_stitch)"]["roc_auc"] == expected


def test_r_stitch_is_created_with_a_calibrated_tau() -> None:
    tau = calibrate_entropy(tiny_rows(50), rate=0.2).threshold
    create_router("r_stitch", RouterContext(0, 2, TOP_K), {"tau": tau})


@pytest.mark.parametrize("label", [1, 0, -1])
def test_rows_of_one_kind_evaluate_nothing(label: int) -> None:
    rows = tiny_rows(40)
    rows.divergent[:] = label
    with pytest.raises(ValueError, match="rows of both kinds"):
        evaluate([tiny_checkpoint("citer")], rows)
