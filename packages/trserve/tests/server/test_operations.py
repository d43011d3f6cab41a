from __future__ import annotations

import socket
import subprocess
import sys

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from tests.support.trserve.running_server import Demo, demo_server
from tests.support.trserve.scripted_group import Reply
from tests.support.waiting import until


def test_models(demo: Demo) -> None:
    (model,) = demo.client.models.list()
    assert model.id == "demo"
    assert demo.client.models.retrieve("demo") == model
    assert model.tokenrouter == {
        "models": ["small", "large"],
        "router": "bernoulli",
        "threshold": {
            "name": "p",
            "value": 0.1,
            "low": 0.0,
            "high": 1.0,
            "meaning": "The share of its tokens that the small model hands over, at random.",
        },
    }
    with pytest.raises(openai.NotFoundError) as error:
        demo.client.models.retrieve("org/other")
    assert error.value.code == "model_not_found"


def test_served_name_may_hold_a_slash() -> None:
    with demo_server(served_name="org/pair") as demo:
        assert demo.client.models.retrieve("org/pair").id == "org/pair"
        assert demo.chat(model="org/pair").json()["model"] == "org/pair"
        assert demo.chat().status_code == 404


def test_unknown_paths_and_methods(demo: Demo) -> None:
    answer = demo.http.get("/v1/embeddings")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"
    answer = demo.http.get("/v1/chat/completions")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_health(own_demo: Demo) -> None:
    group = own_demo.group
    answer = own_demo.http.get("/health")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    assert [each["name"] for each in answer.json()["subservers"]] == ["small", "large"]
    group.alive[1] = False
    answer = own_demo.http.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    group.draining = True
    answer = own_demo.http.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "draining")
    group.alive[0] = False
    answer = own_demo.http.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")


def test_api_key() -> None:
    with demo_server(api_key="secret") as demo:
        assert demo.http.get("/health").status_code == 200
        assert demo.http.get("/metrics").status_code == 200
        answer = demo.chat()
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "missing_api_key"
        assert answer.headers["x-request-id"]
        for wrong in ("Bearer secret2", "Bearer sécret", "Basic secret", "Bearer", "secret"):
            headers = [(b"authorization", wrong.encode())]
            assert demo.http.get("/v1/models", headers=headers).status_code == 401
        assert demo.client.models.retrieve("demo").id == "demo"


def test_request_ids(demo: Demo) -> None:
    def id_for(wanted: str) -> str:
        return demo.http.get("/health", headers={"x-request-id": wanted}).headers["x-request-id"]

    assert id_for("my-id_1.2:3") == "my-id_1.2:3"
    for insane in ("", "a b", "x" * 200, "a\tb", "<script>"):
        assert id_for(insane) not in ("", insane)
    assert len({demo.chat().headers["x-request-id"] for _ in range(3)}) == 3
    failed = demo.http.get("/nowhere", headers={"x-request-id": "abc"})
    assert failed.headers["x-request-id"] == "abc"


def test_one_log_line_per_request(own_demo: Demo) -> None:
    body = {"model": "demo", "prompt": "x", "max_tokens": 5}
    with capture_logs() as lines:
        own_demo.http.post("/v1/completions", json=body, headers={"x-request-id": "abc"})
        until(lambda: any(line["event"] == "request finished" for line in lines))
    (line,) = [line for line in lines if line["event"] == "request finished"]
    assert line["request_id"] == "abc"
    assert line["model"] == "demo"
    assert line["finish"] == "length"
    assert line["completion_tokens"] == 5
    assert line["handoffs"] == 2
    assert line["ttft_s"] > 0
    assert line["tpot_s"] >= 0


def samples(demo: Demo) -> dict[tuple[str, ...], float]:
    page = demo.http.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
    }


def test_metrics(own_demo: Demo) -> None:
    own_demo.group.reply = lambda request: Reply("abcde")
    own_demo.chat(n=2)
    own_demo.chat(max_tokens=3, stream=True)
    own_demo.chat(temperature=-1)
    own_demo.http.get("/nowhere/123")
    got = samples(own_demo)
    assert got["trserve_completion_tokens_total", "small"] == 3 + 3 + 2
    assert got["trserve_completion_tokens_total", "large"] == 3 + 3 + 1
    assert got["trserve_prompt_tokens_total",] == 2 * len("user: Hi\nassistant:")
    assert got["trserve_choices_finished_total", "stop"] == 2
    assert got["trserve_choices_finished_total", "length"] == 1
    assert got["trserve_group_requests_finished_total", "stop"] == 2
    assert got["trserve_http_responses_total", "/v1/chat/completions", "200"] == 2
    assert got["trserve_http_responses_total", "/v1/chat/completions", "400"] == 1
    assert got["trserve_http_responses_total", "other", "404"] == 1
    assert got["trserve_time_to_first_token_seconds_count",] == 2
    assert got["trserve_time_per_output_token_seconds_count",] == 3
    assert got["trserve_request_duration_seconds_count",] == 2
    assert got["trserve_subserver_requests", "pending", "small"] == 0
    assert got["trserve_subserver_up", "large"] == 1
    assert got["trserve_subserver_router_errors_total", "small"] == 0
    assert got["trserve_subserver_handoff_seconds_bucket", "+Inf", "small"] == 0
    assert got["trserve_group_active_requests",] == 0


def test_importing_the_package_loads_nothing() -> None:
    heavy = "fastapi, pydantic, uvicorn, jinja2, trsched, structlog"
    code = f"import sys, trserve; print([m for m in '{heavy}'.split(', ') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_client_that_leaves_while_it_sends_is_counted_as_gone(own_demo: Demo) -> None:
    where = (own_demo.http.base_url.host, own_demo.http.base_url.port or 80)
    with socket.create_connection(where) as client:
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
            b'content-type: application/json\r\ncontent-length: 100\r\n\r\n{"model'
        )
    line = 'trserve_http_responses_total{path="/v1/chat/completions",status="%d"}'
    until(lambda: f"{line % 499} 1.0" in own_demo.http.get("/metrics").text)
    assert line % 400 not in own_demo.http.get("/metrics").text
