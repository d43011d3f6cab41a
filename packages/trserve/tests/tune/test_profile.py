"""`trserve profile`: latencies of simulated engines are found exactly, files are whole."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.support.trserve.process_state import clear_variables
from tests.support.trserve.virtual_engines import (
    CONFIG,
    CountingEngine,
    simulated,
    virtual_engines,
)
from trsched.plan.check import check_group
from trsched.plan.config import group_config
from trserve.cli.main import main
from trserve.tune.latency_measurement import MeasurementPlan, extend_token_ms, step_ms_by_size
from trserve.tune.latency_profile import MeasuredPoint, read_profile

__all__ = ["simulated", "virtual_engines"]  # fixtures


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    clear_variables(monkeypatch)


def point(batch, tokens, ms):
    return MeasuredPoint(batch, tokens, ms, ms, ms)


def test_latencies_are_found_exactly(tmp_path, simulated, virtual_engines):
    out = tmp_path / "latency.yaml"
    arguments = ["--config", str(simulated), "--batches", "5,1,3,4", "--steps", "3"]
    assert main(["profile", *arguments, "--out", str(out)]) == 0
    profile = read_profile(out)
    small, large = profile.models
    assert (small.name, large.name) == ("small", "large")
    # size 2 is interpolated, 5 is beyond what the configuration says
    assert small.step_ms == pytest.approx([2.0, 2.5, 3.0, 3.5, 3.5])
    assert small.extend_token_ms == pytest.approx(0.125)
    assert large.step_ms == pytest.approx([8.0, 8.5, 9.0, 11.0, 15.0])
    assert large.extend_token_ms == pytest.approx(0.5)
    assert profile.measured is not None
    assert profile.measured.batches == [1, 3, 4, 5]
    assert profile.measured.steps == 3
    assert all(engine.closed for engine in virtual_engines.opened)


def test_table(capsys, simulated, virtual_engines):
    assert main(["profile", "--config", str(simulated), "--batches", "1,2"]) == 0
    output = capsys.readouterr().out
    assert "small" in output
    assert "2.00 – 2.00" in output
    assert "each further token that a step ingests: 0.500 ms" in output


def test_json(capsys, simulated, virtual_engines):
    assert main(["profile", "--config", str(simulated), "--batches", "1,2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "trserve-latency-1"
    measured = document["measured"]
    assert measured["source"] == str(simulated)
    assert (measured["context_tokens"], measured["steps"]) == (128, 24)
    found = {(p["batch"], p["tokens"]) for p in measured["points"]["large"]}
    assert found == {(1, 1), (2, 1)} | {(b, k) for b in (1, 2) for k in (2, 4, 8)}
    assert document["models"][0] == {
        "engine": "profile",
        "name": "small",
        "step_ms": [2.0, 2.5],
        "extend_token_ms": 0.125,
    }


def test_models_can_be_pasted_into_a_configuration(tmp_path, simulated, virtual_engines):
    out = tmp_path / "latency.yaml"
    assert main(["profile", "--config", str(simulated), "--out", str(out)]) == 0
    pasted = yaml.safe_load(CONFIG) | {"models": yaml.safe_load(out.read_text())["models"]}
    assert check_group(group_config(pasted)).config.models[1].name == "large"


def test_ctrl_c_leaves_nothing_behind(capsys, tmp_path, simulated, virtual_engines):
    class Interrupted(CountingEngine):
        def step(self, seqs):
            if virtual_engines.clock.now() > 1.0:
                raise KeyboardInterrupt
            return super().step(seqs)

    virtual_engines.kind = Interrupted
    out = tmp_path / "latency.yaml"
    assert main(["profile", "--config", str(simulated), "--out", str(out)]) == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["simulated.yaml"]
    assert [engine.closed for engine in virtual_engines.opened] == [True]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        (["--batches", "1,x"], "--batches: ", "1 to 256"),
        (["--batches", ""], "--batches: ", "''"),
        (["--batches", "0"], "--batches: ", "1 to 256"),
        (["--batches", "257"], "--batches: ", "1 to 256"),
        (["--context-tokens", "2000000"], "--context-tokens: ", "was made for 1048576"),
        (["--out", "{folder}"], "--out: ", "is a folder"),
        (["--out", "{folder}/none/x.yaml"], "--out: ", "no folder"),
        (["--steps", "0"], "Invalid value for '--steps': ", "greater than or equal to 1"),
        (["--set", "router={name: r_stitch}"], "router.name: ", "logits"),
    ],
)
def test_bad_input(capsys, simulated, virtual_engines, arguments, field, message):
    given = [argument.replace("{folder}", str(simulated.parent)) for argument in arguments]
    assert main(["profile", "--config", str(simulated), *given]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith(f"trserve: {field}")
    assert message in error
    assert error.count("\n") == 1
    assert not virtual_engines.opened


def test_nothing_to_profile(capsys):
    assert main(["profile"]) == 2
    assert capsys.readouterr().err.startswith("trserve: --preset: ")


def test_sizes_below_the_smallest_take_its_latency():
    assert step_ms_by_size([point(4, 1, 2.0), point(6, 1, 4.0)]) == [2.0, 2.0, 2.0, 2.0, 3.0, 4.0]


def test_noise_gives_no_negative_cost():
    assert extend_token_ms([point(1, 1, 2.0), point(1, 2, 1.9)]) == 0.0


@pytest.mark.parametrize("steps", [1, 3, 4, 7, 24])
def test_rounds_add_up(steps):
    assert sum(MeasurementPlan([1], 8, steps).steps_by_round) == steps


@pytest.mark.models
def test_real_engine(capsys):
    """llama.cpp, the small model alone."""
    arguments = ["--preset", "smol-slm", "--batches", "1,2", "--steps", "1", "--json"]
    assert main(["profile", *arguments]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert all(0 < ms < 10_000 for model in models for ms in model["step_ms"])


def test_a_wrong_setting_is_found_in_its_file(capsys, tmp_path):
    file = tmp_path / "pair.yaml"
    file.write_text(
        "name: x\n"
        "models:\n"
        "  - {engine: profile, name: small, step_ms: [-2.0]}\n"
        "router: {name: fixed}\n"
        "context: 64\n"
    )
    assert main(["profile", "--config", str(file)]) == 2
    place = f"trserve: config {file} line 3 column 36: models[0].step_ms: "
    assert capsys.readouterr().err.startswith(place)
