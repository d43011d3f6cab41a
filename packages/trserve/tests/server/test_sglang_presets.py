"""Presets of models on SGLang: checked with no GPU, no SGLang, no download; refused in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from tests.support.trserve.process_state import clear_variables, kept_logging
from trsched.plan.sglang_model import SglangModel
from trserve.cli.main import main
from trserve.presets import preset_names
from trserve.server.deployment import load_deployment
from trserve.server.startup_log import log_deployment

PRESETS = [name for name in preset_names() if name.startswith("qwen3-")]
TRAINED = {
    "qwen3-0.6b-32b-citer": "there is no public one, train it",
    "qwen3-0.6b-32b-co-llm": "there is no public one, train it",
    "qwen3-0.6b-32b-r2r": 'R2R_router_collections "Qwen3-0.6B+Qwen3-32B/default_router.pt"',
    "qwen3-0.6b-8b-r2r": 'R2R_router_collections "Qwen3-0.6B+Qwen3-8B/default_router.pt"',
    "qwen3-1.7b-8b-r2r": 'R2R_router_collections "Qwen3-1.7B+Qwen3-8B/default_router.pt"',
    "qwen3-4b-8b-r2r": 'R2R_router_collections "Qwen3-4B+Qwen-8B/default_router.pt"',
}
COMPLETE = ["qwen3-0.6b-32b-dummy"]
MEMORY_OF_A_GPU = 80 * 1000**3 / 2**30  # GiB that 80 GB have at least


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clear_variables(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setattr("trsched.engines.open_sglang.find_spec", lambda name: None)
    monkeypatch.setenv("TRSERVE_PORT", "0")
    with kept_logging():
        yield


def sglang_models(**where) -> list[SglangModel]:
    models = load_deployment(**where).group.models
    return [model for model in models if isinstance(model, SglangModel)]


def test_there_is_one_for_each_algorithm_and_pair():
    assert set(PRESETS) == {
        *TRAINED,
        *COMPLETE,
        "qwen3-0.6b-32b-rstitch",
        "qwen3-0.6b-8b-32b-me",
    }


@pytest.mark.parametrize("name", PRESETS)
def test_it_is_checked_on_a_machine_that_has_nothing(capsys, name):
    assert main(["check", "--preset", name]) == 0
    output, error = capsys.readouterr()
    assert error == ""
    models = sglang_models(preset=name)
    assert output.count("KV ") >= len(models), "the memory is planned"
    assert "up to 16 requests at once" in output
    unchecked = [line for line in output.splitlines() if line.startswith("not checked: ")]
    if name in COMPLETE:
        assert output.startswith(f"preset {name}: all right\n")
        assert not unchecked
        return
    assert output.startswith(f"preset {name}: all right, as far as it can be checked here\n")
    for i, model in enumerate(models):
        assert unchecked[i].startswith(f"not checked: models[{i}].path: '{model.path}' is not in")
    assert len(unchecked) == len(models) + (name in TRAINED)
    if name in TRAINED:
        assert "router.settings" in unchecked[-1]
        assert TRAINED[name] in unchecked[-1]


@pytest.mark.parametrize("name", PRESETS)
def test_it_fits_the_gpus_that_it_is_for(capsys, name):
    assert main(["check", "--preset", name]) == 0
    gpus = [line for line in capsys.readouterr().out.splitlines() if line.startswith("GPU ")]
    taken = [float(line.split()[-2]) for line in gpus]
    assert len(gpus) in (2, 3)
    assert max(taken) < MEMORY_OF_A_GPU + 3  # a card has 79 GiB and some


@pytest.mark.parametrize("name", PRESETS)
def test_it_is_not_launched_without_what_it_needs(capsys, name):
    assert main(["launch", "--preset", name]) == 2
    output, error = capsys.readouterr()
    assert (output, error.count("\n")) == ("", 1)
    if name in TRAINED:
        assert error.startswith("trserve: router.settings: ")
        assert TRAINED[name] in error
    else:
        said = "models[0].engine: sglang is not installed: pip install 'trserve[sglang]'"
        assert error == f"trserve: {said}\n"


def test_any_pair_can_be_measured_with_made_up_weights(capsys):
    router = "router={name: bernoulli, settings: {p: 0.1}}"
    arguments = ["check", "-p", "qwen3-4b-8b-r2r", "--load-format", "dummy", "--set", router]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["unchecked"] == []
    assert document["plan"]["vocabulary"] == "bytes-151936"
    assert [model["load_format"] for model in document["group"]["models"]] == ["dummy"] * 2
    assert document["plan"]["kv_tokens_per_model"] == 16 * 9216


def test_unknown_models_leave_gaps_in_the_document(capsys, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "name: own\n"
        "models:\n"
        "  - {engine: sglang, name: small, path: somebody/Small}\n"
        "  - {engine: sglang, name: large, path: somebody/Large, tp: 2}\n"
        "router: {name: r_stitch}\n"
    )
    assert main(["check", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["plan"]["kv_bytes"] is None
    assert document["plan"]["models"][1]["kv_bytes"] is None
    assert [each["field"] for each in document["unchecked"]] == ["models[0].path", "models[1].path"]
    assert main(["check", str(path)]) == 0
    assert "model 1 large: sglang, KV not known" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["flag", "environment", "file", "set"])
def test_load_format_from_anywhere(capsys, tmp_path, monkeypatch, where):
    path = tmp_path / "own.yaml"
    models = "[{engine: sglang, name: a, path: Qwen/Qwen3-4B}]"
    more = ", load_format: dummy" if where == "file" else ""
    path.write_text(f"{{name: own, models: {models}, router: {{name: fixed}}{more}}}")
    if where == "environment":
        monkeypatch.setenv("TRSERVE_LOAD_FORMAT", "dummy")
    flags = {"flag": ["--load-format", "dummy"], "set": ["--set", "models[0].load_format=dummy"]}
    assert main(["check", str(path), "--json", *flags.get(where, [])]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["group"]["models"][0]["load_format"] == "dummy"
    assert document["unchecked"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "qwen3-0.6b-32b-dummy", "--load-format", "pickle"], "--load-format: "),
        (["-p", "profile-demo", "--load-format", "dummy"], "load_format: is for models on sglang"),
        (["-p", "profile-demo", "--kv-memory", "auto"], "kv_memory: auto is for groups"),
        (["-p", "qwen3-0.6b-32b-dummy", "--set", "models[0].tpp=2"], "models[0].tpp: unknown"),
        (["-p", "qwen3-0.6b-32b-dummy", "--set", "models[1].tp=4"], "models[1].gpus: 2 GPUs for 4"),
        (
            ["-p", "qwen3-0.6b-32b-dummy", "--set", "models[1].server_args.tp_size=2"],
            "models[1].server_args.tp_size: trserve sets it: use tp",
        ),
        (
            ["-p", "qwen3-0.6b-32b-r2r", "--set", "router={name: r2r, settings: {checkpoint: x}}"],
            "router.settings: checkpoint: no such file: x",
        ),
    ],
)
def test_what_is_wrong_is_named(capsys, arguments, message):
    assert main(["check", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"trserve: {message}")
    assert error.count("\n") == 1


def test_models_says_what_is_missing(capsys):
    assert main(["models", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)["presets"]}
    for name in PRESETS:
        assert not listed[name]["available"]
        assert all("sglang" in model["missing"] for model in listed[name]["models"])
        if name in TRAINED:
            assert TRAINED[name] in listed[name]["router_missing"]
        else:
            assert listed[name]["router_missing"] is None


def test_a_router_of_ones_own(capsys, tmp_path):
    """The checkpoint's place is under the home folder; one that is there is read."""
    place = tmp_path / ".local/share/trserve/routers/qwen3-0.6b-32b-citer"
    place.mkdir(parents=True)
    assert main(["check", "-p", "qwen3-0.6b-32b-citer"]) == 2
    assert "router.json: No such file" in capsys.readouterr().err


def test_the_log_says_which_checkpoints_are_served():
    presets = load_deployment(preset="qwen3-0.6b-32b-dummy")
    with capture_logs() as lines:
        log_deployment(structlog.get_logger(), presets, "http://test")
    model = next(line for line in lines if line.get("index") == 1)
    assert (model["path"], model["gpus"]) == ("Qwen/Qwen3-32B", [0, 1])
    assert model["load_format"] == "dummy"
    (limits,) = (line for line in lines if line["event"] == "limits")
    assert limits["kv_memory"] == "52 GiB"
    auto = load_deployment(preset="qwen3-0.6b-32b-r2r", flags={"kv_memory": "auto"})
    with capture_logs() as lines:
        log_deployment(structlog.get_logger(), auto, "http://test")
    assert lines[-1]["kv_memory"] == "auto"


def test_names_of_the_hub_stay_and_folders_are_the_files(tmp_path):
    (tmp_path / "models" / "large").mkdir(parents=True)
    path = tmp_path / "own.yaml"
    path.write_text(
        "name: own\n"
        "models:\n"
        "  - {engine: sglang, name: small, path: Qwen/Qwen3-0.6B}\n"
        "  - {engine: sglang, name: large, path: models/large}\n"
        "  - {engine: sglang, name: more, path: ./models/none}\n"
        "router: {name: me}\n"
    )
    models = sglang_models(config=path)
    assert [model.path for model in models] == [
        "Qwen/Qwen3-0.6B",
        str(tmp_path / "models/large"),
        str(tmp_path / "models/none"),
    ]
