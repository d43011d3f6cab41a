"""Training: it finds what is there to find, the same each time, and says why where it cannot."""

# ruff: noqa: E402  (without torch this module is skipped before it imports it)

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed: no safetensors")

from packages.trrouters.tests.tiny_rows import tiny_rows, write_rows
from tests.support.trrouters.tiny_checkpoints import HIDDEN, NETWORKS, PAIR, TOP_K
from trrouters.checkpoint import RouterCheckpoint, load_checkpoint, save_checkpoint
from trrouters.training.evaluate import evaluate
from trrouters.training.fit import FitSettings, fit
from trrouters.training.rows import Rows
from trrouters.training.train_router import train_router
from trrouters.training.trained_algorithm import ALGORITHMS

TRAINED = sorted(NETWORKS)
QUICK = FitSettings(epochs=12, batch=64, learning_rate=0.01)
SMALL_ENOUGH: dict[str, dict[str, Any]] = {
    "r2r": {"widths": [16]},
    "citer": {"widths": [16]},
    "co_llm": {},
}


def trained(algorithm: str, data: Path, settings: FitSettings = QUICK) -> RouterCheckpoint:
    return train_router(algorithm, data, settings, architecture=SMALL_ENOUGH[algorithm])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("data"), tiny_rows(cut_off=0.1))


@pytest.fixture(scope="module")
def routers(data: Path) -> dict[str, RouterCheckpoint]:
    return {algorithm: trained(algorithm, data) for algorithm in TRAINED}


@pytest.mark.parametrize("algorithm", TRAINED)
def test_training_finds_what_the_hidden_state_tells(
    tmp_path: Path, routers: dict[str, RouterCheckpoint], algorithm: str
) -> None:
    """On rows of other prompts, and from the stored float16 weights."""
    save_checkpoint(routers[algorithm], tmp_path)
    checkpoint = load_checkpoint(tmp_path, algorithm)
    report = evaluate([checkpoint], tiny_rows(400, seed=1))
    assert report[str(tmp_path)]["roc_auc"] > 0.9
    assert report[str(tmp_path)]["recall"] > 0.75
    assert report[str(tmp_path)]["rate"] < 0.7
    assert checkpoint.training["validation"]["roc_auc_divergent"] > 0.85


@pytest.mark.parametrize("algorithm", TRAINED)
def test_a_trained_router_says_what_it_is(
    routers: dict[str, RouterCheckpoint], algorithm: str
) -> None:
    checkpoint = routers[algorithm]
    assert checkpoint.algorithm == algorithm
    checkpoint.check_models(PAIR)
    assert checkpoint.architecture["hidden_size"] == HIDDEN
    assert checkpoint.architecture.get("top_k", TOP_K) == TOP_K
    checkpoint.build(NETWORKS[algorithm])
    facts = checkpoint.training
    assert facts["max_tokens"] == 40
    assert facts["fit"]["epochs"] == 12
    rows = tiny_rows(cut_off=0.1)
    learnt_from = rows.divergent >= 0 if algorithm == "r2r" else rows.divergent >= -1
    assert facts["rows"] + facts["validation"]["rows"] == int(learnt_from.sum())


@pytest.mark.parametrize("algorithm", TRAINED)
def test_the_same_rows_and_seed_give_the_same_network(
    data: Path, routers: dict[str, RouterCheckpoint], algorithm: str
) -> None:
    torch.manual_seed(99)  # whatever was drawn before
    again = trained(algorithm, data)
    for name, tensor in routers[algorithm].tensors.items():
        assert torch.equal(again.tensors[name], tensor), name
    assert again.threshold == routers[algorithm].threshold
    other = trained(algorithm, data, replace(QUICK, seed=1, epochs=1))
    assert not all(torch.equal(other.tensors[name], t) for name, t in again.tensors.items())


def test_the_best_epoch_is_kept() -> None:
    """Of an overfitted network: on few rows with labels that mean nothing."""
    rng = np.random.default_rng(3)
    rows = tiny_rows(60)
    rows = replace(rows, divergent=torch.from_numpy(rng.integers(0, 2, 60)).to(torch.int8))
    train, validation = rows.split_prompts(0.4)
    said: list[str] = []
    settings = FitSettings(epochs=15, patience=4, batch=16, learning_rate=0.02)
    shape = {"hidden_size": HIDDEN, "top_k": TOP_K, "widths": [16]}
    network, loss = fit(
        ALGORITHMS["r2r"],
        shape,
        train,
        validation,
        settings,
        progress=lambda _, words: said.append(words),
    )
    losses = [float(words.split()[-1]) for words in said]
    best = losses.index(min(losses))
    assert loss == pytest.approx(min(losses), abs=1e-4)
    assert len(losses) == best + 1 + 4 < 15, "stopped for want of patience"
    with torch.inference_mode():
        output = network(*ALGORITHMS["r2r"].inputs(validation))
    assert float(ALGORITHMS["r2r"].losses[0](output, validation)) == pytest.approx(loss, abs=1e-6)


def test_co_llm_starts_from_weak_labels_then_fits_the_likelihood() -> None:
    said: list[str] = []
    train, validation = tiny_rows(100).split_prompts(0.2)
    fit(
        ALGORITHMS["co_llm"],
        {"hidden_size": HIDDEN},
        train,
        validation,
        replace(QUICK, epochs=2),
        progress=lambda _, words: said.append(words),
    )
    assert [words.split(":")[0] for words in said] == ["epoch 1", "epoch 2"] * 2


def test_co_llms_loss_is_the_papers_likelihood_and_a_nat_for_every_deferral() -> None:
    rows = tiny_rows(20)
    output = torch.linspace(-4, 4, 20)
    deferral = 1 / (1 + np.exp(-output.double().numpy()))
    base, assistant = (np.exp(p.double().numpy()) for p in (rows.small_logprob, rows.large_logprob))
    expected = (deferral - np.log((1 - deferral) * base + deferral * assistant)).mean()
    found = float(ALGORITHMS["co_llm"].losses[1](output, rows))
    assert found == pytest.approx(expected, abs=1e-6)


# --- what cannot be learnt from


def test_no_data(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no collected rows"):
        train_router("citer", tmp_path)


def only_one_labelled_prompt() -> Rows:
    rows = tiny_rows(60, prompts=3)
    labels = rows.divergent.where(rows.prompts == 1, torch.tensor(-1, dtype=torch.int8))
    return replace(rows, divergent=labels)


@pytest.mark.parametrize(
    ("algorithm", "rows"),
    [
        ("citer", tiny_rows(40, prompts=1)),
        ("r2r", only_one_labelled_prompt()),
        ("r2r", tiny_rows(40, cut_off=1.0)),
    ],
)
def test_fewer_than_two_prompts_that_can_be_used(
    tmp_path: Path, algorithm: str, rows: Rows
) -> None:
    with pytest.raises(ValueError, match="two prompts at least"):
        train_router(algorithm, write_rows(tmp_path, rows), QUICK)


def test_no_divergent_row(tmp_path: Path) -> None:
    rows = tiny_rows(60)
    none = replace(rows, divergent=torch.zeros_like(rows.divergent))
    with pytest.raises(ValueError, match=r"divergent|both kinds"):
        trained("citer", write_rows(tmp_path, none), replace(QUICK, epochs=1))


def test_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    rows = tiny_rows(60)
    rows.hidden_states[:] = float("inf")
    with pytest.raises(ValueError, match="loss is not finite"):
        trained("co_llm", write_rows(tmp_path, rows), replace(QUICK, epochs=2))


@pytest.mark.parametrize(
    ("algorithm", "architecture", "said"),
    [
        ("co_llm", {"widths": [4]}, "co_llm.*widths"),
        ("r2r", {"depth": 4}, "r2r.*depth"),
        ("citer", {"widths": [0]}, "widths must be at least 1"),
        ("r2r", {"widths": [10**15]}, "r2r: "),
    ],
)
def test_an_architecture_that_cannot_be(
    data: Path, algorithm: str, architecture: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        train_router(algorithm, data, QUICK, architecture=architecture)


def test_no_epoch() -> None:
    with pytest.raises(ValueError, match="epochs must be at least 1, not 0"):
        FitSettings(epochs=0)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_no_learning_rate(rate: float) -> None:
    with pytest.raises(ValueError, match="learning rate must be above 0"):
        FitSettings(learning_rate=rate)


def test_a_collection_that_was_stopped_is_not_trained_on(tmp_path: Path) -> None:
    write_rows(tmp_path, tiny_rows(60))
    collected = json.loads((tmp_path / "collected.json").read_text())
    collected["prompts"]["count"] += 1
    (tmp_path / "collected.json").write_text(json.dumps(collected))
    with pytest.raises(ValueError, match=r"rows of \d+ of \d+ prompts"):
        train_router("citer", tmp_path)
