"""`GET /metrics` counts requests, tokens and responses."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.support.trserve.demo_server import Demo
from tests.support.trserve.scripted_group import Reply


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
