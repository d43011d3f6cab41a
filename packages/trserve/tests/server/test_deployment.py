"""From a command line to checked settings and group."""

from __future__ import annotations

import pytest

from tests.support.trserve.process_state import clear_variables
from trsched.errors import ConfigError
from trserve.presets import preset_names
from trserve.server.deployment import load_deployment

GROUP = """
name: mine
models:
  - {engine: profile, name: a, step_ms: [1.0]}
  - {engine: profile, name: b, step_ms: [2.0]}
router: {name: bernoulli, settings: {p: 0.5}}
context: 100
server:
  port: 7000
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    clear_variables(monkeypatch)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GROUP)
    return path


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_valid(name):
    deployment = load_deployment(preset=name)
    assert deployment.group.name == name
    assert deployment.description
    assert deployment.source == f"preset {name}"


def test_the_demo_pair():
    group = load_deployment(preset="smol-rstitch").group
    assert [model.name for model in group.models] == ["smollm2-slm8", "smollm2-135m-instruct"]
    assert (group.router.name, group.router.settings) == ("r_stitch", {"tau": 0.3})


def test_group_precedence(config, monkeypatch):
    assert load_deployment(config=config).group.context == 100
    monkeypatch.setenv("TRSERVE_CONTEXT", "200")
    assert load_deployment(config=config).group.context == 200
    assert load_deployment(config=config, changes=["context=300"]).group.context == 300
    both = load_deployment(config=config, changes=["context=300"], flags={"context": 400})
    assert both.group.context == 400


def test_set_server_counts_as_a_flag(config, monkeypatch):
    monkeypatch.setenv("TRSERVE_PORT", "7001")
    assert load_deployment(config=config).server.port == 7001
    assert load_deployment(config=config, changes=["server.port=7002"]).server.port == 7002


def test_set_deep(config):
    changes = [
        "router.settings.p=0.25",
        "models[1].threshold=2",
        "models[1].sampling.top_k=9",
    ]
    group = load_deployment(config=config, changes=changes).group
    assert group.router.settings == {"p": 0.25}
    assert group.models[1].threshold == 2
    assert group.models[1].sampling.top_k == 9


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        (["contxt=1"], "contxt", "did you mean 'context'?"),
        (["serve.port=1"], "serve", "did you mean 'server'?"),
        (["models[0].thrshold=1"], "models[0].thrshold", "did you mean 'threshold'?"),
        (
            ["models[1].sampling.topp=1"],
            "models[1].sampling.topp",
            "did you mean 'top_p'?",
        ),
        (["models[1].sampling.top_p=2"], "models[1].sampling.top_p", "at most 1"),
        (["router.setings={}"], "router.setings", "did you mean 'settings'?"),
        (["context=abc"], "--context", "integer"),
        (["max_active=0"], "max_active", "at least 1"),
        (["router.name=3"], "router.name", "str"),
        (["models=3"], "models", "array"),
        (["models=[]"], "models", "at least one"),
        (["models[0].engine=vulkan"], "models[0].engine", "vulkan"),
        (
            ["models[0].name=b"],  # what is wrong now stands in the file
            "config {path} line 5 column 23: models[1].name",
            "twice",
        ),
        (["models[0].step_ms=[]"], "models[0].step_ms", "positive"),
        (["server=3"], "server", "expected settings"),
        (["description=3"], "description", "expected text"),
        (["kv_memory=lots"], "kv_memory", "not a size"),
    ],
)
def test_refusals_name_the_field(config, changes, field, message):
    with pytest.raises(ConfigError) as caught:
        load_deployment(config=config, changes=changes)
    assert caught.value.field == field.format(path=config)
    assert message in str(caught.value)


def test_one_source(config):
    with pytest.raises(ConfigError, match="nothing to serve"):
        load_deployment()
    with pytest.raises(ConfigError, match="cannot be combined"):
        load_deployment(preset="smol-slm", config=config)


def test_unknown_preset_suggests():
    with pytest.raises(ConfigError, match=r"did you mean 'smol-rstitch'.*profile-demo"):
        load_deployment(preset="smol-r-stitch")
