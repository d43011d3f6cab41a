"""trserve.gateway.metrics.tracing with the real SDK, and without one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from trsched.errors import ConfigError
from trserve.gateway.metrics.tracing import Tracing
from trserve.gateway.metrics.tracing_setup import tracing_from_environment

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SENT = [
    (b"host", b"gateway"),
    (b"traceparent", f"00-{TRACE}-{PARENT}-01".encode()),
    (b"tracestate", b"vendor=1"),
    (b"baggage", b"tenant=7"),
]


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: InMemorySpanExporter) -> Tracing:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider)


def spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def whole_request(tracing: Tracing, headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    upstream_headers: dict[str, str] = {}
    with tracing.request("/v1/chat/completions", headers) as request:
        request.asked("auto", "req-1")
        with request.decide() as decision:
            decision.decided("small-0", "small", "best score")
        with request.upstream("small-0", "small", upstream_headers) as upstream:
            upstream.answered(200)
        request.used(12, 34)
        request.answered(200, "small")
    return upstream_headers


def test_a_request_has_a_span_with_its_decision_and_its_answer(tracing, exporter) -> None:
    whole_request(tracing, SENT)
    found = spans(exporter)
    request = found["POST /v1/chat/completions"]
    assert request.kind is SpanKind.SERVER
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "auto",
        "gen_ai.response.model": "small",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 34,
        "routebalance.request_id": "req-1",
    }
    assert dict(found["decide"].attributes or {}) == {
        "routebalance.instance": "small-0",
        "routebalance.model": "small",
        "routebalance.reason": "best score",
    }
    assert found["upstream"].kind is SpanKind.CLIENT
    assert dict(found["upstream"].attributes or {}) == {
        "gen_ai.request.model": "small",
        "routebalance.instance": "small-0",
        "http.response.status_code": 200,
    }
    for name in ("decide", "upstream"):
        assert found[name].parent == request.context
    assert {span.status.status_code for span in found.values()} == {StatusCode.UNSET}


def test_the_clients_trace_goes_on_and_the_instance_is_told(tracing, exporter) -> None:
    sent_on = whole_request(tracing, SENT)
    found = spans(exporter)
    assert {f"{span.context.trace_id:032x}" for span in found.values()} == {TRACE}
    parent = found["POST /v1/chat/completions"].parent
    assert parent is not None
    assert f"{parent.span_id:016x}" == PARENT
    upstream = found["upstream"].context
    assert sent_on == {
        "traceparent": f"00-{TRACE}-{upstream.span_id:016x}-01",
        "tracestate": "vendor=1",
        "baggage": "tenant=7",
    }


@pytest.mark.parametrize("value", [b"", b"nonsense", b"00-0-0-00", b"\xff" * 55])
def test_without_a_usable_traceparent_a_trace_begins_here(tracing, exporter, value) -> None:
    whole_request(tracing, [(b"traceparent", value)])
    request = spans(exporter)["POST /v1/chat/completions"]
    assert request.parent is None
    assert request.context.trace_id != 0


def test_every_try_has_its_span(tracing, exporter) -> None:
    with tracing.request("/v1/completions", []) as request:
        for instance in ("a", "b"):
            with request.upstream(instance, "small", {}) as upstream:
                upstream.answered(503 if instance == "a" else 200)
        request.answered(200)
    first, second, whole = exporter.get_finished_spans()
    assert first.status.status_code is StatusCode.ERROR
    assert (first.attributes["error.type"], first.attributes["routebalance.instance"]) == (
        "503",
        "a",
    )
    assert "http.request.resend_count" not in first.attributes
    assert second.attributes["http.request.resend_count"] == 1
    assert second.status.status_code is StatusCode.UNSET
    assert whole.attributes["gen_ai.operation.name"] == "text_completion"
    assert whole.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("status", [400, 429, 500, 504])
def test_a_clients_mistake_is_no_error_of_the_server(tracing, exporter, status) -> None:
    with tracing.request("/v1/completions", []) as request:
        request.answered(status)
    (span,) = exporter.get_finished_spans()
    assert (span.status.status_code is StatusCode.ERROR) == (status >= 500)
    assert span.attributes.get("error.type") == (str(status) if status >= 500 else None)


@pytest.mark.parametrize("error", [ConnectionError, asyncio.CancelledError])
def test_an_exception_ends_all_spans_as_errors_and_goes_on(tracing, exporter, error) -> None:
    def fail() -> None:
        with tracing.request("/v1/completions", []) as request, request.upstream("a", "m", {}):
            raise error

    with pytest.raises(error):
        fail()
    assert [span.attributes["error.type"] for span in exporter.get_finished_spans()] == [
        error.__name__
    ] * 2


def test_what_is_not_sampled_is_not_made_but_the_decision_is_passed_on() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    sent_on = whole_request(Tracing(provider), [])
    assert not exporter.get_finished_spans()
    assert int(sent_on["traceparent"].rpartition("-")[2], 16) & 1 == 0


def test_without_an_sdk_nothing_is_made_or_sent() -> None:
    assert whole_request(Tracing(None), SENT) == {}


@pytest.fixture
def clean(monkeypatch) -> None:
    for name in ("TRACES_EXPORTER", "EXPORTER_OTLP_ENDPOINT", "EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(f"OTEL_{name}", raising=False)
    for name in ("SDK_DISABLED", "EXPORTER_OTLP_PROTOCOL", "EXPORTER_OTLP_TRACES_PROTOCOL"):
        monkeypatch.delenv(f"OTEL_{name}", raising=False)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
        {"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_it_is_off_unless_asked_for(clean, monkeypatch, capfd, settings) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with tracing_from_environment() as tracing:
        assert whole_request(tracing, SENT) == {}
    assert capfd.readouterr().out == ""


PROGRAM = """
from trserve.gateway.metrics.tracing_setup import tracing_from_environment

with tracing_from_environment() as tracing:
    with tracing.request("/v1/completions", []) as request:
        with request.decide(), request.upstream("a", "m", {}):
            pass
"""


def test_an_exporter_named_in_the_environment_gets_every_span_before_the_end() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "OTEL_TRACES_EXPORTER": "console"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for text in ('"POST /v1/completions"', '"decide"', '"upstream"', '"trserve-gateway"'):
        assert text in run.stdout


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"OTEL_TRACES_EXPORTER": "nowhere"}, "OTEL_TRACES_EXPORTER: the exporter 'nowhere' is"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "morse"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: 'morse' is none of grpc, http/protobuf",
        ),
    ],
)
def test_what_cannot_be_had_is_said_at_the_start(clean, monkeypatch, settings, complaint) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught, tracing_from_environment():
        pass
    assert str(caught.value).startswith(complaint)
