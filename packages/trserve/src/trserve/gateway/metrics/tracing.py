"""Spans of a request, by OpenTelemetry: the request itself, its decision, each try upstream.

Attributes follow the semantic conventions for HTTP and for generative AI; what those don't know is
under `routebalance.`. Where no SDK is configured nothing is made, and nothing but a few calls is
spent; `tracing_setup` configures one from the environment.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from types import TracebackType
from typing import Self

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider

_OPERATIONS = {"/v1/chat/completions": "chat", "/v1/completions": "text_completion"}

Header = tuple[bytes, bytes]


class _OpenSpan:
    """A span that ends with its `with` block, or nothing where `span` is None."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """An exception, cancellation among them, is the span's error."""
        if self._span is not None:
            if kind is not None:
                self.failed(kind.__name__)
            self._span.end()

    def failed(self, error_type: str) -> None:
        """error_type: a word of a small vocabulary, such as a status or an exception's name."""
        if self._span is not None:
            self._span.set_attribute("error.type", error_type)
            self._span.set_status(StatusCode.ERROR)


class DecisionSpan(_OpenSpan):
    """From the question to the balancer until its answer."""

    def decided(self, instance: str, model: str, reason: str) -> None:
        """The choice."""
        if self._span is not None:
            self._span.set_attribute("routebalance.instance", instance)
            self._span.set_attribute("routebalance.model", model)
            self._span.set_attribute("routebalance.reason", reason)


class UpstreamSpan(_OpenSpan):
    """One try at one instance, until the last byte of its answer."""

    def answered(self, status: int) -> None:
        """The instance's status; from 400 on it is an error of this span."""
        if self._span is not None:
            self._span.set_attribute("http.response.status_code", status)
            if status >= 400:
                self.failed(str(status))


class RequestSpan(_OpenSpan):
    """A client's request until the last byte of its answer. Children: decide, upstream."""

    def __init__(self, span: Span | None, tracer: Tracer | None, sent: Context | None) -> None:
        """sent: what the client's headers say."""
        super().__init__(span)
        self._tracer = tracer
        self._context = None if span is None else trace.set_span_in_context(span, sent)
        self._tries = 0

    def asked(self, model: str, request_id: str) -> None:
        """What the body asks for."""
        if self._span is not None:
            self._span.set_attribute("gen_ai.request.model", model)
            self._span.set_attribute("routebalance.request_id", request_id)

    def decide(self) -> DecisionSpan:
        """To be used as `with`."""
        if self._tracer is None:
            return _OFF_DECISION
        return DecisionSpan(self._tracer.start_span("decide", self._context))

    def upstream(
        self, instance: str, model: str, headers: MutableMapping[str, str]
    ) -> UpstreamSpan:
        """To be used as `with`; the span's identity is written into `headers`, for the instance."""
        if self._tracer is None:
            return _OFF_UPSTREAM
        span = self._tracer.start_span("upstream", self._context, SpanKind.CLIENT)
        span.set_attribute("gen_ai.request.model", model)
        span.set_attribute("routebalance.instance", instance)
        if self._tries:
            span.set_attribute("http.request.resend_count", self._tries)
        self._tries += 1
        propagate.inject(headers, trace.set_span_in_context(span, self._context))
        return UpstreamSpan(span)

    def answered(self, status: int, model: str | None = None) -> None:
        """What the client got; from 500 on it is an error of this span."""
        if self._span is not None:
            self._span.set_attribute("http.response.status_code", status)
            if model is not None:
                self._span.set_attribute("gen_ai.response.model", model)
            if status >= 500:
                self.failed(str(status))

    def used(self, input_tokens: int, output_tokens: int) -> None:
        """Tokens, where the answer tells them."""
        if self._span is not None:
            self._span.set_attribute("gen_ai.usage.input_tokens", input_tokens)
            self._span.set_attribute("gen_ai.usage.output_tokens", output_tokens)


_OFF_DECISION = DecisionSpan(None)
_OFF_UPSTREAM = UpstreamSpan(None)
_OFF_REQUEST = RequestSpan(None, None, None)


class Tracing:
    """Makes requests' spans with a provider, or none without one."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._tracer = None if provider is None else provider.get_tracer("trserve.gateway")

    def request(self, path: str, headers: Iterable[Header]) -> RequestSpan:
        """To be used as `with`. A trace that the client's headers tell of goes on.

        path: the route's, with its parameters unfilled. headers: names in lower case, as ASGI's.
        """
        if self._tracer is None:
            return _OFF_REQUEST
        sent = _sent_context(headers)
        attributes = {"http.request.method": "POST", "http.route": path}
        if path in _OPERATIONS:
            attributes["gen_ai.operation.name"] = _OPERATIONS[path]
        span = self._tracer.start_span(f"POST {path}", sent, SpanKind.SERVER, attributes)
        return RequestSpan(span, self._tracer, sent)


def _sent_context(headers: Iterable[Header]) -> Context:
    carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    return propagate.extract(carrier)
