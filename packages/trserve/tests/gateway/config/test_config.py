"""A gateway's configuration: what is taken, and how what is wrong is named."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from trsched.errors import ConfigError
from trserve.gateway.config.checks import gateway_config
from trserve.gateway.config.deployment import config_file, load_gateway
from trserve.server.deployment import load_deployment

GOOD: dict[str, Any] = {
    "models": [{"name": "small"}, {"name": "large", "predict_as": {"small": 0.5, "big": 0.5}}],
    "groups": [{"name": "pair", "preset": "profile-demo"}],
    "instances": [
        {"name": "a", "model": "small", "url": "http://127.0.0.1:9001"},
        {"name": "b", "model": "large", "group": "pair", "threshold": 0.3},
    ],
    "aliases": {"cheap": {"models": ["small"], "weights": "cost"}},
}


def test_a_whole_one() -> None:
    config = gateway_config(GOOD)
    assert config.instances[1].threshold == 0.3
    assert config.weights == "balanced"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("models", [], "models"),
        ("models.0.name", "", "models[0].name"),
        ("models.1.name", "small", "models[1].name"),
        ("models.0.name", "auto", "models[0].name"),
        ("models.0.name", "cheap", "models[0].name"),
        ("models.0.quality", 1.5, "models[0].quality"),
        ("models.0.tpot_s", 0, "models[0].tpot_s"),
        ("models.0.tpot_s", math.inf, "models[0].tpot_s"),
        ("models.0.quality", math.nan, "models[0].quality"),
        ("models.0.length", math.inf, "models[0].length"),
        ("models.0.price_in", math.nan, "models[0].price_in"),
        ("models.0.price_out", math.inf, "models[0].price_out"),
        ("models.0.price_out", 10**400, "models[0].price_out"),
        ("models.0.prefill_rate", math.inf, "models[0].prefill_rate"),
        ("instances.0.tpot_s", math.inf, "instances[0].tpot_s"),
        ("models.0.capabilities", ["flying"], "models[0].capabilities[0]"),
        ("models.0.tpots", 1, "models[0].tpots"),
        ("models.0.context", 2**31, "models[0].context"),
        ("models.0.slots", 2**31, "models[0].slots"),
        ("instances.0.context", 2**31, "instances[0].context"),
        ("instances.0.slots", 2**40, "instances[0].slots"),
        ("instances.1.name", "a", "instances[1].name"),
        ("instances.0.model", "none", "instances[0].model"),
        ("instances.0.url", "127.0.0.1:9001", "instances[0].url"),
        ("instances.0.url", "ftp://x", "instances[0].url"),
        ("instances.0.url", "http://x:0", "instances[0].url"),
        ("instances.0.url", "http://x:99999", "instances[0].url"),
        ("instances.0.url", "http://u@x", "instances[0].url"),
        ("instances.0.url", "http://x/v1", "instances[0].url"),
        ("instances.0.url", "http://x:8000/v1/", "instances[0].url"),
        ("instances.0.url", "http://x/openai/v1", "instances[0].url"),
        ("instances.0.url", None, "instances[0]"),
        ("instances.0.group", "pair", "instances[0]"),
        ("instances.0.threshold", 0.1, "instances[0].threshold"),
        ("instances.0.concurrency", 0, "instances[0].concurrency"),
        ("instances.0.health_path", "health", "instances[0].health_path"),
        ("instances.1.group", "other", "instances[1].group"),
        ("instances.1.only", "small", "instances[1].only"),
        ("groups.0.config", "x.yaml", "groups[0]"),
        ("groups.0.preset", None, "groups[0]"),
        ("aliases.cheap.models", ["none"], "aliases.cheap.models[0]"),
        ("aliases.cheap.weights", "fast", "aliases.cheap.weights"),
        ("weights", {"quality": 1, "cost": 1, "latency": 1}, "weights"),
        ("timeouts", {"idle_s": 0}, "timeouts.idle_s"),
        ("timeouts", {"idle_s": math.inf}, "timeouts.idle_s"),
        ("timeouts", {"idle": 1}, "timeouts.idle"),
        ("retries", {"attempts": 0}, "retries.attempts"),
        ("batching", "sometimes", "batching"),
        ("unknown", 1, "unknown"),
    ],
)
def test_what_is_wrong_is_named(path: str, value: Any, field: str) -> None:
    data = yaml.safe_load(yaml.safe_dump(GOOD))
    *parents, last = path.split(".")
    at = data
    for name in parents:
        at = at[int(name)] if name.isdigit() else at[name]
    at[int(last) if last.isdigit() else last] = value
    with pytest.raises(ConfigError) as caught:
        gateway_config(data)
    assert caught.value.field == field


def test_a_url_is_told_to_be_without_v1_and_the_rest_of_a_path_is_fine() -> None:
    data = yaml.safe_load(yaml.safe_dump(GOOD))
    data["instances"][0]["url"] = "http://x/v1"
    with pytest.raises(ConfigError, match="leave out /v1 at the end"):
        gateway_config(data)
    data["instances"][0]["url"] = "http://x/v1/proxy"
    assert gateway_config(data).instances[0].url == "http://x/v1/proxy"


def test_an_alias_may_not_be_called_auto() -> None:
    with pytest.raises(ConfigError, match=r"aliases\.auto"):
        gateway_config(GOOD | {"aliases": {"auto": {"models": ["small"]}}})


TEXT = """\
server: {port: 0}
models:
  - name: small
    tpot_s: 0.012
  - {name: large,
     tpot_s: 0.04}
instances:
  - name: a
    model: small
    url: http://127.0.0.1:9001
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0.012", "-1", "line 4 column 5: models[0].tpot_s: "),
        ("model: small", "model: tiny", "line 9 column 5: instances[0].model: 'tiny' is none of"),
        ("0.012", ".inf", "line 4 column 5: models[0].tpot_s: Expected `float` <= 1000000000.0"),
        ("port: 0", "port: x", "line 1 column 10: server.port: "),
        (
            "port: 0",
            "ports: 0",
            "line 1 column 10: server.ports: unknown setting, did you mean 'port'?",
        ),
        (
            "tpot_s: 0.04}",
            "tpot: 0.04}",
            "line 6 column 6: models[1].tpot: unknown setting, did you mean",
        ),
        ("  - name: a", "  - name: [a", "line 9 column 10: "),
    ],
)
def test_errors_name_file_line_column_and_field(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_gateway(file)
    assert f"config {file} {said}" in str(caught.value)


def test_flags_beat_the_file_and_paths_start_at_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(TEXT + "predictor: fitted\ngroups: [{name: g, config: g.yaml}]\n")
    loaded = load_gateway(file, {"port": 9, "host": None}, ["weights=quality"])
    assert loaded.server.port == 9
    assert loaded.gateway.weights == "quality"
    assert loaded.gateway.predictor == str(tmp_path / "fitted")
    assert loaded.gateway.groups[0].config == str(tmp_path / "g.yaml")
    file.write_text(TEXT)
    assert loaded.reread().server.port == 9


def test_paths_may_start_at_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somebody")
    path = tmp_path / "gateway.yaml"
    groups = [{"name": "pair", "config": "~/pair.yaml"}]
    path.write_text(yaml.safe_dump({**GOOD, "groups": groups, "predictor": "~nobody-here/p"}))
    gateway = load_gateway(path).gateway
    assert gateway.groups[0].config == "/somebody/pair.yaml"
    assert gateway.predictor == "~nobody-here/p"


def test_the_demo_names_models_that_its_group_has() -> None:
    demo = load_gateway(config_file(None, demo=True)).gateway
    group = load_deployment(preset=demo.groups[0].preset).group
    alone = {spec.only for spec in demo.instances if spec.only is not None}
    assert alone == {model.name for model in group.models}


def test_either_a_file_or_the_demo() -> None:
    for given, demo in ((None, False), (Path("x.yaml"), True)):
        with pytest.raises(ConfigError, match="--config"):
            config_file(given, demo=demo)
