"""The `rbalance` command: fit, eval and fit-tpot, and what they say about bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from packages.rbalance.tests.tpot.test_tpot import measured
from rbalance.cli import main
from rbalance.commands import evaluate, fit
from rbalance.demo import DEMO_PROMPTS
from tests.support.rbalance.word_embedder import WordEmbedder

for library in ("faiss", "safetensors", "xgboost"):
    pytest.importorskip(library, reason=f"rbalance[predict] is not installed: no {library}")

DATA = str(DEMO_PROMPTS)


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here is about the model that embeds."""
    for command in (fit, evaluate):
        monkeypatch.setattr(command, "open_embedder", lambda model, precision: WordEmbedder())


@pytest.fixture
def predictor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    out = str(tmp_path / "predictor")
    assert main(["fit", DATA, "--out", out, "--hold-out", "0.25"]) == 0
    capsys.readouterr()
    return out


def asked_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    found = json.loads(printed)
    assert isinstance(found, dict)
    return found


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("rbalance: ")
    assert said.err.count("\n") == 1
    return said.err


def test_fit_says_what_it_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked_json(
        capsys, "fit", DATA, "--out", str(tmp_path / "p"), "--models", "demo-3b,demo-72b"
    )
    assert found["prompts"] + found["held_out"] == 400
    assert 60 <= found["held_out"] <= 100
    assert list(found["models"]) == ["demo-3b", "demo-72b"]
    assert found["models"]["demo-3b"]["quality"] < found["models"]["demo-72b"]["quality"]


def test_eval_judges_the_prompts_that_were_held_out(
    predictor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = [
        f"--price=demo-{size}={price}/{price}"
        for size, price in (("3b", 0.06), ("7b", 0.07), ("14b", 0.15), ("72b", 0.4))
    ]
    found = asked_json(capsys, "eval", predictor, DATA, *prices)
    assert found["prompts"] + found["left_out"] == 400
    assert list(found["choices"]) == ["routed", "oracle", "always demo-72b", "always demo-3b"]
    assert found["calibration"]["squared_error"] < found["calibration"]["prior_squared_error"]
    assert found["length"]["predicted"] < found["length"]["prior"]
    routed = found["choices"]["routed"]
    assert routed["quality"]["low"] <= routed["quality"]["mean"] <= routed["quality"]["high"]
    cheap, dear = (found["choices"][f"always demo-{size}"]["usd"] for size in ("3b", "72b"))
    assert cheap < routed["usd"] <= dear


def test_eval_shows_a_table_for_people(predictor: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", predictor, DATA]) == 0
    shown = capsys.readouterr().out
    for words in ("held-out prompts", "always demo-72b", "regret to oracle", "ECE", "tokens on av"):
        assert words in shown


def test_eval_refuses_prompts_that_were_all_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "all")
    assert main(["fit", DATA, "--out", out, "--hold-out", "0"]) == 0
    capsys.readouterr()
    assert "fit with --hold-out" in complaint(capsys, "eval", out, DATA)


def test_a_table_can_be_learned_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "mmlu.csv"
    lines = [f"question {number} of {number % 7},{number % 2 == 0},True" for number in range(50)]
    table.write_text("\n".join(["prompt,weak,strong", *lines]))
    out = str(tmp_path / "p")
    assert "default_length" in complaint(capsys, "fit", str(table), "--out", out)
    found = asked_json(capsys, "fit", str(table), "--out", out, "--default-length", "64")
    assert found["models"]["strong"] == {"quality": 1.0, "length": 64.0}


def test_tpot_heads_are_trained_and_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b"\n".join(msgspec.json.encode(record) for record in measured(200, 3)))
    found = asked_json(capsys, "fit-tpot", str(rows), "--out", str(tmp_path / "heads"))
    assert found["heads"]["fast"]["rows"] == 100
    assert (tmp_path / "heads" / "tpot.json").exists()
    assert main(["fit-tpot", str(rows), "--out", str(tmp_path / "heads")]) == 0
    assert "slow" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "absent.jsonl", "--out", "p"], "No such file"),
        (["fit", DATA, "--out", "p", "--models", "demo-3b,gpt"], "no prompt has a score of model"),
        (["fit", DATA, "--out", "p", "--models", ","], "--models: names no model"),
        (["fit", DATA, "--out", "p", "--k", "0"], "k: must be at least 1"),
        (["fit", DATA, "--out", "p", "--hold-out", "1"], "hold_out"),
        (["fit", DATA, "--out", "p", "--chars-per-token", "0"], "chars_per_token"),
        (["fit", DATA, "--out", "p", "--chars-per-token", "x"], "--chars-per-token"),
        (["fit", DATA, "--out", "p", "--chars-per-token", "gpt=3"], "no model is called 'gpt'"),
        (["fit", DATA], "--out"),
        (["fit-tpot", DATA, "--out", "p"], "prompts.jsonl:1:"),
        (["eval", "absent", DATA], "predictor.json: No such file"),
        (["unknown"], "unknown"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in complaint(capsys, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ("demo-3b=1", "is not MODEL=IN/OUT"),
        ("demo-3b=1/x", "has no number"),
        ("gpt=1/2", "there must be one for each of"),
    ],
)
def test_bad_prices_are_named(
    predictor: str, price: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in complaint(capsys, "eval", predictor, DATA, "--price", price)


def test_a_shell_can_complete_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (
        ("_RBALANCE_COMPLETE", "complete_bash"),
        ("COMP_WORDS", "rbalance fi"),
        ("COMP_CWORD", "1"),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match="0"):
        main([])
    assert capsys.readouterr().out.split() == ["fit", "fit-tpot"]
