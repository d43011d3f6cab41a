"""Where `trserve tune` has latencies and routing from: profile, command line, metrics page."""

from __future__ import annotations

import http.server
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from tests.support.trserve.metrics_page import PAGE
from trsched.errors import ConfigError
from trsched.plan.config import ProfileModel
from trsched.shared.counters import GroupStatus, SubserverStats
from trsched.shared.step_counters import StepCounters
from trsched.tuning.group_traffic import GroupTraffic
from trsched.tuning.routing_flow import (
    RoutingFlow,
    both_sides,
    checked,
    one_token_visits,
    tokens_read_per_step,
    with_rate,
)
from trserve.server.metrics.group_collector import GroupCollector
from trserve.tune.inputs import TrafficOptions, traffic
from trserve.tune.latency_profile import read_profile
from trserve.tune.metrics_log import fetch_metrics, parse_metrics

RATES = st.floats(0.01, 1.0)


def options(**given) -> TrafficOptions:
    nothing: dict[str, Any] = dict.fromkeys(TrafficOptions.__dataclass_fields__)
    return TrafficOptions(**(nothing | {"latency_ms": ()} | given))


@given(RATES)
def test_a_token_is_read_once_by_each_model(p):
    """R2R: the small model reads one token a step, the large one all since its last visit."""
    small, large = tokens_read_per_step(one_token_visits(p))
    assert small == pytest.approx(1.0)
    assert large == pytest.approx(1 / p)


@given(RATES, RATES)
def test_an_ensemble_of_two_reads_more_where_it_is_less(p, q):
    """All tokens stand: each step commits one, and a model reads one in `1 / its share` steps."""
    flow = RoutingFlow([[1 - p, p], [q, 1 - q]], [[1.0, 1.0], [1.0, 1.0]])
    assert tokens_read_per_step(flow) == pytest.approx([(p + q) / q, (p + q) / p])


@given(RATES, RATES, RATES)
def test_another_rate(p, q, other):
    flow = with_rate(both_sides(p, q), other)
    assert flow.rate == pytest.approx(other)
    assert flow.routing[1] == both_sides(p, q).routing[1]


def test_another_rate_keeps_the_others_shares():
    ones = [[1.0] * 3] * 3
    flow = RoutingFlow([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], ones)
    assert with_rate(flow, 0.6).routing[0] == pytest.approx([0.4, 0.4, 0.2])


def test_reading_is_part_of_a_step():
    models = [ProfileModel("a", [2.0, 3.0]), ProfileModel("b", [8.0], extend_token_ms=0.5)]
    small, large = GroupTraffic(models, one_token_visits(0.25)).seconds(3)
    assert small == pytest.approx([0.002, 0.003, 0.003])
    assert large == pytest.approx([0.0095, 0.011, 0.0125])  # 3 tokens more of each request


def test_metrics():
    log = parse_metrics(PAGE, "--log")
    assert log.flow == one_token_visits(0.35)
    assert log.steps == {"small": 1000, "large": 350}
    assert [model.name for model in log.models] == ["small", "large"]
    assert log.models[0].step_ms == pytest.approx([6.0, 7.0, 8.0])
    assert log.models[1].step_ms == pytest.approx([27.9, 27.9])


def test_the_page_of_our_own_server():
    counters = [StepCounters(2, 3), StepCounters(2, 3)]
    counters[0].moved([(0, 5)] * 13 + [(1, -1)] * 7)
    counters[1].moved([(0, 5)] * 7)
    counters[0].took(1, 0.006)
    counters[0].took(3, 0.008)
    counters[1].took(2, 0.0279)
    stats = [
        SubserverStats(name, counter)
        for name, counter in zip(("small", "large"), counters, strict=True)
    ]
    registry = CollectorRegistry()
    registry.register(GroupCollector(lambda: GroupStatus("pair", 0, 0, 4, False, {}, stats)))
    own = parse_metrics(generate_latest(registry).decode(), "--log")
    written = parse_metrics(PAGE, "--log")
    assert own.flow == written.flow
    assert own.models == written.models


def without(name: str) -> str:
    return "\n".join(line for line in PAGE.splitlines() if name not in line) + "\n"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("", "no trserve_subserver_moves_total in it"),
        ("up 1\n", "no trserve_subserver_moves_total in it"),
        ("<html>nothing here</html>\n", "not a page of Prometheus metrics"),
        (without("batch_seconds"), "no trserve_subserver_batch_seconds_total"),
        (without('seconds_total{subserver="large"'), "the latencies of 'large'"),
        (without('steps_total{subserver="large"'), "the latencies of 'large'"),
        (without('moves_total{subserver="large"'), "'large', which made no step"),
        (without('moves_total{subserver="large",to="small"'), "'large' made no step yet"),
        (PAGE.replace('to="large"} 350', 'to="large"} 0'), "never get to model 1"),
        (PAGE.replace('size="2"', 'size="two"'), "'two' is no batch size"),
        (PAGE.replace(',to="large"', ""), "not a page of Prometheus metrics"),
    ],
)
def test_bad_metrics(page, message):
    with pytest.raises(ConfigError, match=message) as raised:
        parse_metrics(page, "--log")
    assert raised.value.field == "--log"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('size="3"} 200.0', 'size="²"} 200.0', "no batch size"),
        ('size="3"} 200.0', 'size="100000"} 200.0', "no batch size"),
        ('to="small"} 650.0', 'to="small"} NaN', "moves_total is nan"),
        ('to="small"} 650.0', 'to="small"} -1', "moves_total is -1"),
        ('size="3"} 1.6', 'size="3"} +Inf', "seconds_total is inf"),
        ('size="3"} 1.6', 'size="3"} 1e308', "latencies of 'small'"),
    ],
)
def test_pages_with_figures_that_no_server_has(old, new, message):
    assert old in PAGE
    with pytest.raises(ConfigError, match=message) as raised:
        parse_metrics(PAGE.replace(old, new).replace("} 200.0", "} 1e-9"), "--url")
    assert raised.value.field == "--url"


def test_a_page_read_between_two_counters():
    """A token whose move isn't on the page yet."""
    before, tokens, after = PAGE.partition('tokens_moved_total{subserver="large",to="small"}')
    page = before + tokens + after.replace("350.0", "351.0", 1)
    assert parse_metrics(page, "--log").flow.committed[1][0] == 1.0


@pytest.mark.parametrize("path", ["", "/", "/v1", "/metrics"])
def test_a_running_servers_metrics(path):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *words):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            log = fetch_metrics(f"http://127.0.0.1:{server.server_port}{path}")
        finally:
            server.shutdown()
            thread.join()
    assert log.flow == one_token_visits(0.35)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense", "http://[", "ftp://x"])
def test_no_server(url):
    with pytest.raises(ConfigError, match="/metrics: ") as raised:
        fetch_metrics(url)
    assert raised.value.field == "--url"


def test_the_option_at_fault_is_named(monkeypatch):
    log = parse_metrics(PAGE, "--url")
    monkeypatch.setattr("trserve.tune.inputs.fetch_metrics", lambda url: log)
    with pytest.raises(ConfigError, match="of 2 models, but there are 3") as raised:
        traffic(options(latency_ms=["1", "2", "3"], url="http://127.0.0.1:9"))
    assert raised.value.field == "--url"


def test_a_log_can_give_routing_alone(tmp_path):
    page, profile = tmp_path / "metrics.txt", tmp_path / "latency.yaml"
    page.write_text(PAGE)
    profile.write_text("models: [{name: large, step_ms: [9]}, {name: small, step_ms: [2]}]")
    both = traffic(options(log=page)).group
    assert [model.name for model in both.models] == ["small", "large"]
    routing = traffic(options(log=page, profile=profile)).group
    assert [model.step_ms for model in routing.models] == [[9], [2]]
    assert routing.flow.routing == [[0.0, 1.0], [0.35, 0.65]]  # in the profile's order
    assert routing.flow.committed[0] == [0.0, 1.0]
    latencies = traffic(options(log=page, p=0.1)).group
    assert (latencies.flow, latencies.models) == (one_token_visits(0.1), both.models)


MEASURED = """
measured: {source: x, date: x, cores: 2, context_tokens: 8, steps: 1, batches: [1],
  extend_tokens: [1], shared_device: true, points: {}}
models: [{name: a, step_ms: [1]}, {name: b, step_ms: [2]}]
"""


@pytest.mark.parametrize(("said", "shared"), [(None, True), (True, True), (False, False)])
def test_a_shared_device_is_remembered(tmp_path, said, shared):
    path = tmp_path / "latency.yaml"
    path.write_text(MEASURED)
    assert traffic(options(profile=path, p=0.1, shared_device=said)).group.shared_device == shared
    by_hand = options(latency_ms=["1", "2"], p=0.1, shared_device=said)
    assert traffic(by_hand).group.shared_device == bool(said)


HAND = {"latency_ms": ["6.0", "27.9"]}


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({}, "--latency-ms", "how long do steps take"),
        (HAND, "--p", "how are tokens routed"),
        (HAND | {"p": 0.0}, "--p", "above 0"),
        (HAND | {"p": float("nan")}, "--p", "above 0"),
        (HAND | {"p": 0.1, "q": 1.5}, "--q", "at most 1"),
        (HAND | {"q": 0.1}, "--q", "needs --p"),
        (HAND | {"p": 0.1, "commit": "1,0;1,0"}, "--commit", "needs --routing"),
        (HAND | {"p": 0.1, "routing": "0,1;1,0"}, "--routing", "cannot be combined with --p"),
        (HAND | {"routing": "0,1"}, "--routing", "as many numbers"),
        (HAND | {"routing": "0,x;1,0"}, "--routing", "numbers parted by commas"),
        (HAND | {"routing": "0,2;1,0"}, "--routing", "from 0 to 1"),
        (HAND | {"routing": "0,0.9;1,0"}, "--routing", "row 0 sums to 0.9"),
        (HAND | {"routing": "1,0;1,0"}, "--routing", "never get to model 1"),
        (HAND | {"routing": "0.5,0.5;0,1"}, "--routing", "model 1 never get to model 0"),
        (HAND | {"routing": "0,1;1,0", "commit": "1"}, "--commit", "expected 2 rows"),
        (HAND | {"routing": "0,1;1,0", "commit": "1,0;0,1"}, "--routing", "no step commits"),
        (HAND | {"routing": "0,1,0;0,0,1;1,0,0"}, "--routing", "for 3 models, but there are 2"),
        ({"latency_ms": ["1"], "p": 0.1}, "models", "two models"),
        ({"latency_ms": ["1", "2", "3"], "p": 0.1}, "--p", "for 2 models, but there are 3"),
        ({"latency_ms": ["1", "0"], "p": 0.1}, "--latency-ms", "positive"),
        ({"latency_ms": ["1", "inf"], "p": 0.1}, "--latency-ms", "positive"),
        ({"latency_ms": ["1", ""], "p": 0.1}, "--latency-ms", "numbers parted"),
        ({"latency_ms": ["1", "1e308"], "p": 0.1}, "latencies of model-1", "1e+09 ms"),
        ({"latency_ms": ["1e-320", "1"], "p": 0.1}, "latencies of model-0", "1e-06 to"),
    ],
)
def test_bad_options(given, field, message):
    with pytest.raises(ConfigError) as raised:
        traffic(options(**given))
    assert raised.value.field == field
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"profile": "none.yaml"}, "config {}none.yaml", "No such file"),
        ({"log": "none.txt"}, "--log", "No such file"),
        ({"log": "binary"}, "--log", "not UTF-8"),
        ({"profile": "good.yaml", "latency_ms": ["1", "2"]}, "--latency-ms", "already"),
        ({"profile": "good.yaml", "log": "page", "url": "x"}, "--url", "cannot be combined"),
        ({"latency_ms": ["1", "2", "3"], "log": "page"}, "--log", "of 2 models"),
    ],
)
def test_bad_files(tmp_path, change, field, message):
    (tmp_path / "good.yaml").write_text("models: [{name: a, step_ms: [1]}]")
    (tmp_path / "page").write_text(PAGE)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    given = {
        name: tmp_path / value if name in {"profile", "log"} else value
        for name, value in change.items()
    }
    with pytest.raises(ConfigError) as raised:
        traffic(options(**given))
    assert raised.value.field == field.replace("{}", f"{tmp_path}/")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("models: []", "models", "at least one"),
        ("models: [{name: a, step_ms: [0]}]", "models[0].step_ms", "positive"),
        ("models: [{name: a, step_ms: [1], extend_token_ms: -1}]", "models[0].extend_token_ms", ""),
        ("models: [{name: a}]", "models[0]", "step_ms"),
        ("models: [{engine: llamacpp, name: a, path: b}]", "models[0].engine", "llamacpp"),
        ("format: other\nmodels: [{name: a, step_ms: [1]}]", "format", "other"),
        ("modles: []", "profile", "modles"),
    ],
)
def test_bad_profile(tmp_path, text, field, message):
    path = tmp_path / "latency.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_profile(path)
    assert raised.value.field == f"{path}: {field}"
    assert message in str(raised.value)


def test_a_token_that_takes_for_ever(tmp_path):
    path = tmp_path / "latency.yaml"
    model = "{{name: {}, step_ms: [1], extend_token_ms: 1.0e+308}}"
    path.write_text(f"models: [{model.format('a')}, {model.format('b')}]")
    with pytest.raises(ConfigError, match="latencies of a"):
        traffic(options(profile=path, p=0.2))


def test_rows_are_made_to_sum_to_one():
    flow = checked(RoutingFlow([[0.3333333, 0.6666666], [1.0, 0.0]], [[1.0] * 2] * 2), "x")
    assert sum(flow.routing[0]) == pytest.approx(1.0, abs=1e-15)
