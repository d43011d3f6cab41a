"""`trserve tune`: reference figures, every kind of input, shapes of what is printed and drawn."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.trserve.metrics_page import PAGE
from tests.support.trserve.process_state import clear_variables
from tests.support.trserve.virtual_engines import simulated, virtual_engines
from trserve.cli.main import main

__all__ = ["simulated", "virtual_engines"]  # fixtures

HAND = ["--latency-ms", "6.0", "--latency-ms", "27.9"]
REFERENCE = [*HAND, "--p", "0.35"]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    clear_variables(monkeypatch)


def tuned(capsys, *arguments):
    assert main(["tune", *map(str, arguments), "--json"]) == 0
    output, error = capsys.readouterr()
    assert error == ""
    assert output.count("\n") == 1
    return json.loads(output)


def test_reference_figures(capsys):
    """The design's table for L = 6.0 and 27.9 ms, p = 0.35."""
    document = tuned(capsys, *REFERENCE)
    rows = {outcome["requests"]: outcome for outcome in document["outcomes"]}
    best = {n: (row["best"]["thresholds"], row["compared"]) for n, row in rows.items()}
    assert best == {
        1: ([1, 1], 1),
        2: ([1, 2], 3),
        4: ([1, 3], 10),
        8: ([1, 5], 36),
        16: ([2, 10], 136),
    }
    speeds = [row["best"]["tokens_per_s"] for row in rows.values()]
    assert speeds[1:] == pytest.approx([110.3, 208.0, 399.0, 785.4], rel=0.001)
    gains = [row["gain"] for row in rows.values()]
    assert gains == pytest.approx([0, 0.115, 0.111, 0.081, 0.071], abs=0.001)
    assert rows[8]["alone"] == pytest.approx({"model-0": 8 / 0.006, "model-1": 8 / 0.0279})
    assert all(row["routing_pays"] for row in rows.values())
    assert [model["threshold"] for model in document["models"]] == [2, 10]
    assert document["routing"] == [[0.65, 0.35], [1.0, 0.0]]
    assert document["committed"] == [[1.0, 0.0], [1.0, 0.0]]


def test_grid_and_other_rates(capsys):
    """The design: B tuned for 0.35 loses 26 % against (1, 1) at 0.02 (N = 8; 28 % at N = 16)."""
    document = tuned(capsys, *REFERENCE, "--concurrency", "8")
    cells = {tuple(cell["thresholds"]): cell["tokens_per_s"] for cell in document["grid"]}
    assert len(cells) == 36
    assert max(cells, key=lambda cell: cells[cell]) == (1, 5)
    others = {other["p"]: other for other in document["others"]}
    assert sorted(others) == [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7]
    assert others[0.02]["gain"] == pytest.approx(-0.26, abs=0.01)
    assert others[0.35]["loss"] == 0
    for other in others.values():
        assert other["tuned"]["thresholds"] == [1, 5]
        assert other["best"]["tokens_per_s"] >= other["tuned"]["tokens_per_s"]
        assert other["best"]["tokens_per_s"] >= other["eager"]["tokens_per_s"]


def test_a_rate_too_small_to_print(capsys):
    document = tuned(capsys, *HAND, "--p", "0.00001234", "--concurrency", "2")
    assert document["others"][0]["p"] == pytest.approx(1.234e-5)
    assert document["others"][0]["loss"] == 0


def test_ways_to_say_the_same(capsys, tmp_path):
    page = tmp_path / "metrics.txt"
    page.write_text(PAGE)
    short = ["--concurrency", "4"]
    first = tuned(capsys, *REFERENCE, *short)
    matrix = ["--routing", "0.65,0.35;1,0", "--commit", "1,0;1,0"]
    for arguments in ([*HAND, *matrix], [*HAND, "--log", page]):
        other = tuned(capsys, *arguments, *short)
        assert other["outcomes"] == first["outcomes"]
        assert other["grid"] == first["grid"]


def test_profile_then_tune(capsys, tmp_path, simulated, virtual_engines):
    out = tmp_path / "latency.yaml"
    arguments = ["--config", str(simulated), "--batches", "1,2,4", "--out", str(out)]
    assert main(["profile", *arguments]) == 0
    capsys.readouterr()
    document = tuned(capsys, out, "--p", "0.25", "--concurrency", "2,8")
    small, large = document["models"]
    assert (small["name"], large["name"]) == ("small", "large")
    assert small["step_ms"][:4] == pytest.approx([2.0, 2.5, 3.0, 3.5])
    assert large["tokens_read_per_step"] == pytest.approx(4.0)
    assert large["step_ms"][0] == pytest.approx(8.0 + 3 * 0.5)
    assert document["latencies_from"] == str(out)
    assert "large: batches of more than 4 were not measured" in document["notes"][-1]
    assert not document["shared_device"]


def test_routing_that_loses_is_called_so(capsys):
    arguments = ["--latency-ms", "10", "--latency-ms", "11", "--p", "0.5", "--concurrency", "4"]
    assert main(["tune", *arguments]) == 0
    output = capsys.readouterr().out
    assert "Routing is a loss in throughput with 4 requests at once" in output
    assert "4: model-1 alone makes 363.6 tok/s" in output


def test_text(capsys):
    assert main(["tune", *REFERENCE, "--concurrency", "1,8"]) == 0
    output, error = capsys.readouterr()
    assert error == ""
    assert "(1, 5)" in output
    assert "+8.0%" in output
    assert "Routing is quicker than model-1 alone at every concurrency above." in output
    assert "8 requests: % over eager by the thresholds of model-0 (down)" in output
    assert "+8*" in output
    assert "- {name: model-1, threshold: 5, …}" in output
    assert "--set models[0].threshold=1 --set models[1].threshold=5" in output
    assert max(map(len, output.splitlines())) <= 120


def test_one_request(capsys):
    document = tuned(capsys, *REFERENCE, "--concurrency", "1")
    assert [cell["thresholds"] for cell in document["grid"]] == [[1, 1]]
    assert document["outcomes"][0]["gain"] == 0
    assert main(["tune", *REFERENCE, "--concurrency", "1"]) == 0


def test_a_shared_device_is_slower(capsys):
    short = ["--concurrency", "4"]
    own = tuned(capsys, *REFERENCE, *short)["outcomes"][0]["best"]["tokens_per_s"]
    shared = tuned(capsys, *REFERENCE, *short, "--shared-device")
    assert shared["shared_device"]
    assert shared["outcomes"][0]["best"]["tokens_per_s"] < own


THREE = ["--latency-ms", "2", "--latency-ms", "5", "--latency-ms", "9"]
THREE += ["--routing", "0.6,0.3,0.1;0.5,0.5,0;0.5,0,0.5"]


def test_three_models_are_simulated(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "tune.png"
    document = tuned(capsys, *THREE, "--concurrency", "2,4", "--plot", plot)
    assert {outcome["best"]["method"] for outcome in document["outcomes"]} == {"simulation"}
    assert all(outcome["gain"] >= 0 for outcome in document["outcomes"])
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert main(["tune", *THREE, "--concurrency", "4"]) == 0
    output = capsys.readouterr().out
    assert "~ simulated" in output
    assert "around the best" in output


def test_many_requests_are_simulated(capsys):
    document = tuned(capsys, *REFERENCE, "--concurrency", "40")
    (outcome,) = document["outcomes"]
    assert outcome["best"]["method"] == "simulation"
    assert outcome["gain"] > 0.03
    axis = {cell["thresholds"][1] for cell in document["grid"]}
    assert outcome["best"]["thresholds"][1] in axis
    assert len(axis) < 20


def test_picture(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "tune.png"
    assert main(["tune", *REFERENCE, "--concurrency", "4", "--plot", str(plot)]) == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["tune.png"]
    assert capsys.readouterr().out.endswith(f"picture: {plot}\n")


def test_without_matplotlib(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plot = tmp_path / "tune.png"
    assert main(["tune", *REFERENCE, "--plot", str(plot)]) == 2
    assert capsys.readouterr() == (
        "",
        "trserve: --plot: needs matplotlib: pip install 'trserve[plot]'\n",
    )
    assert main(["tune", *REFERENCE, "--concurrency", "2"]) == 0


def test_ctrl_c(capsys, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("trsched.tuning.threshold_study.Throughput", interrupted)
    assert main(["tune", *REFERENCE, "--plot", str(tmp_path / "tune.png")]) == 130
    assert capsys.readouterr().out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ([], "--latency-ms: how long"),
        (["none.yaml", "--p", "0.2"], "config none.yaml: "),
        ([*REFERENCE, "--concurrency", "0"], "--concurrency: "),
        ([*REFERENCE, "--concurrency", "1;2"], "--concurrency: "),
        ([*REFERENCE, "--plot", "/none/x.png"], "--plot: there is no folder"),
        ([*HAND, "--p", "2"], "--p: must be above 0"),
        ([*HAND, "--p", "x"], "Invalid value for '--p'"),
        ([*HAND, "--log", "none.txt"], "--log: none.txt: No such file"),
        ([*HAND, "--url", "http://127.0.0.1:9"], "--url: http://127.0.0.1:9/metrics: "),
    ],
)
def test_bad_input(capsys, arguments, field):
    assert main(["tune", *arguments]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith(f"trserve: {field}")
    assert error.count("\n") == 1
