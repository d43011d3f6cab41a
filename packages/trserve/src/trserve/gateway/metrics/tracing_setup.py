"""Whether requests are traced, as OpenTelemetry's environment variables say."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider

from trsched.errors import ConfigError
from trserve.gateway.metrics.tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_INSTALL = "pip install 'trserve[tracing]'"


@contextmanager
def tracing_from_environment() -> Iterator[Tracing]:
    """Trace where an exporter or its endpoint is set; at the end all spans are sent.

    A provider that the process already has (`opentelemetry-instrument`) is used as it is.
    OTEL_SDK_DISABLED, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_BSP_* and the like are read by
    the SDK.

    Raises ConfigError naming the variable: traces are wanted and what makes them isn't installed.
    """
    provider = trace.get_tracer_provider()
    if not isinstance(provider, ProxyTracerProvider):
        yield Tracing(provider)
        return
    names = _exporters()
    if not names:
        yield Tracing(None)
        return
    variable = "OTEL_TRACES_EXPORTER" if os.environ.get("OTEL_TRACES_EXPORTER") else _ENDPOINTS[0]
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(variable, f"traces need the OpenTelemetry SDK: {_INSTALL}") from error
    service = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "trserve-gateway"}
    own = TracerProvider(resource=Resource.create(service), shutdown_on_exit=False)
    for name in names:
        own.add_span_processor(BatchSpanProcessor(_exporter(name, variable)()))
    try:
        yield Tracing(own)
    finally:
        own.shutdown()


def _exporters() -> list[str]:
    """Names of entry points; an endpoint alone asks for OTLP."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    default = "otlp" if any(os.environ.get(name) for name in _ENDPOINTS) else "none"
    given = os.environ.get("OTEL_TRACES_EXPORTER") or default
    names = [name.strip() for name in given.split(",")]
    return [_with_protocol(name) for name in names if name not in ("", "none")]


def _with_protocol(name: str) -> str:
    if name != "otlp":
        return name
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    if protocol not in _PROTOCOLS:
        raise ConfigError(
            "OTEL_EXPORTER_OTLP_PROTOCOL", f"{protocol!r} is none of {', '.join(_PROTOCOLS)}"
        )
    return _PROTOCOLS[protocol]


def _exporter(name: str, variable: str) -> Callable[[], SpanExporter]:
    found = list(entry_points(group="opentelemetry_traces_exporter", name=name))
    if not found:
        raise ConfigError(variable, f"the exporter {name!r} is not installed: {_INSTALL}")
    loaded: Callable[[], SpanExporter] = found[0].load()
    return loaded
