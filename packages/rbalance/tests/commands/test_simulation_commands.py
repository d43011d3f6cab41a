"""`rbalance sweep`, `report`, `replay` and `tpot-rows`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rbalance.cli import main
from rbalance.commands import sweep
from rbalance.demo import DEMO_PROMPTS
from rbalance.errors import ArtefactError, TrainingError
from rbalance.labels.records import read_records
from rbalance.simulator.prompt_pool import PromptPool
from rbalance.simulator.sweep import POOL, ROWS, read_rows
from rbalance.tpot.record import read_tpot_records
from tests.support.rbalance.synthetic_pool import synthetic_pool
from tests.support.rbalance.word_embedder import WordEmbedder

FEW = ("--requests", "40", "--rates", "6,30", "--jobs", "2")
DEMO_MODELS = ("demo-3b", "demo-7b", "demo-14b", "demo-72b")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "sweep"
    out.mkdir()
    synthetic_pool().save(out / POOL)
    return out


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("rbalance: ")
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_was_cut_off_and_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = ("--policy", "round-robin", "--policy", "best-route:threshold=0.5")
    assert main(["sweep", str(folder), *policies, *FEW]) == 0
    assert "4 points, 4 of them new" in capsys.readouterr().out
    first = read_rows(folder)
    assert {row.point.rate for row in first} == {6.0, 30.0}
    kept = (folder / ROWS).read_bytes()
    (folder / ROWS).write_bytes(kept + b'{"point":{"pol')
    assert read_rows(folder) == first

    assert main(["sweep", str(folder), *policies, *FEW, "--weights", "0.6/0.2/0.2"]) == 0
    assert "6 points, 2 of them new" in capsys.readouterr().out
    assert (folder / ROWS).read_bytes().startswith(kept)
    assert read_rows(folder)[:4] == first
    assert main(["sweep", str(folder), *policies, *FEW]) == 0
    assert "6 points, 0 of them new" in capsys.readouterr().out

    assert main(["report", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "| route-balance:weights=0.6/0.2/0.2 | 30 |" in printed
    assert (folder / "REPORT.md").read_text("utf-8") in printed
    for name in ("frontier", "radar", "latency", "overhead"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert main(["report", str(folder), "--json", "--no-pictures"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 6


def test_bad_input_is_one_line_and_names_the_field(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, says in (
        (("sweep", str(folder), "--rates", "6;12"), "--rates: '6;12' is not numbers"),
        (("sweep", str(folder), "--rates", "0"), "rate: must be above 0, not 0"),
        (("sweep", str(folder), "--policy", "best"), "policy: 'best' is none of"),
        (("sweep", str(folder), "--deployment", "best"), "deployment: 'best' is none of"),
        (("sweep", str(folder), "--arrivals", "even"), "--arrivals: 'even' is not"),
        (("sweep", str(folder), "--requests", "0"), "requests: must be 1 or more"),
        (("sweep", str(tmp_path / "new")), "pool.npz is not there yet; name labelled prompts"),
        (("sweep", str(tmp_path / "new"), str(DEMO_PROMPTS)), "--models: name four"),
        (("report", str(folder)), "holds no points"),
        (("replay", str(folder), "--against", "chance"), "--against: 'chance' is not hungarian"),
        (("replay", str(folder), "--rate", "0"), "--rate: must be above 0"),
        (("replay", str(folder), "--weights", "1/1/1"), "weights: quality, cost and latency sum"),
        (("replay", str(tmp_path)), "pool.npz"),
    ):
        assert says in complaint(capsys, *words)


def test_a_line_that_is_no_row_is_refused(folder: Path) -> None:
    (folder / ROWS).write_text('{"point": 1}\n{}\n')
    with pytest.raises(ArtefactError, match=r"rows\.jsonl:1:"):
        read_rows(folder)


def test_replay_finds_what_a_matching_does_otherwise(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("replay", str(folder), "--requests", "200", "--rate", "60", "--batch", "8")
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["requests"] == 200
    assert found["batches"] < 200
    assert found["model_differs"] <= found["instance_differs"] < 0.6
    assert found["quality_low"] <= found["quality_delta"] <= found["quality_high"]
    assert main([*words]) == 0
    assert "another model for" in capsys.readouterr().out


def test_tpot_rows_are_what_fit_tpot_reads(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    assert (
        main(["tpot-rows", str(folder), "--out", str(out), "--rates", "2,30", "--requests", "60"])
        == 0
    )
    rows = list(read_tpot_records(out))
    assert 100 < len(rows) <= 120
    assert len({row.tier for row in rows}) == 4
    assert all(row.tpot_s > 0 for row in rows)


def test_a_pool_is_made_of_labelled_prompts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason="rbalance[predict] is not installed: no faiss")
    opened = []

    def embedder(model: str | None, precision: str) -> WordEmbedder:
        opened.append(precision)
        return WordEmbedder()

    monkeypatch.setattr(sweep, "open_embedder", embedder)
    monkeypatch.setattr(sweep, "run_sweep", lambda points, folder, jobs, heads: iter(()))
    words = ["sweep", str(tmp_path / "new"), str(DEMO_PROMPTS), "--models", ",".join(DEMO_MODELS)]
    for _ in range(2):
        assert main(words) == 0
    assert len(opened) == 1
    pool = PromptPool.load(tmp_path / "new" / POOL)
    total = sum(1 for _ in read_records(DEMO_PROMPTS))
    assert len(pool.prompt) + len(pool.train_prompt) == total
    assert 0.1 < len(pool.prompt) / total < 0.3
    assert pool.models == DEMO_MODELS
    assert np.isfinite(pool.predictions.quality).all()
    np.testing.assert_allclose(np.linalg.norm(pool.vectors, axis=1), 1, atol=1e-3)
    spread = np.abs(pool.predictions.quality - pool.prior.quality).max()
    assert spread > 0.05, "predictions depend on the prompt"


def test_too_few_prompts_make_no_pool(tmp_path: Path) -> None:
    from rbalance.simulator.make_pool import make_pool

    few = list(read_records(DEMO_PROMPTS))[:1]
    with pytest.raises(TrainingError, match="1 labelled prompts are too few"):
        make_pool(few, WordEmbedder(), DEMO_MODELS)
